//! Checks an expression when it is set: one that can never succeed is rejected before it is used.

use jmespath::ast::Ast;

use super::jmespath_functions::FunctionSignature;
use super::{InvalidProjection, LONGEST, jmespath_functions};

/// The maximum nesting depth of expressions.
const MAX_EXPRESSION_DEPTH: usize = 100;

pub(super) fn parse_projection(text: &str) -> Result<Ast, InvalidProjection> {
    if LONGEST < text.len() {
        return Err(InvalidProjection::TooLong);
    }
    // Checked before parsing, because the parser is recursive.
    let opening = text.bytes().filter(|byte| b"([{!&*".contains(byte)).count();
    if MAX_EXPRESSION_DEPTH < opening {
        return Err(InvalidProjection::TooDeep);
    }
    let ast = jmespath::parse(text).map_err(|error| InvalidProjection::Syntax {
        why: error.reason.to_string().trim().to_owned(),
        at: error.offset,
    })?;
    check_expression(&ast, 0)?;
    Ok(ast)
}

fn check_expression(ast: &Ast, depth: usize) -> Result<(), InvalidProjection> {
    if MAX_EXPRESSION_DEPTH < depth {
        return Err(InvalidProjection::TooDeep);
    }
    let below = |ast: &Ast| check_expression(ast, depth + 1);
    match ast {
        Ast::Identity { .. } | Ast::Field { .. } | Ast::Index { .. } | Ast::Literal { .. } => {
            Ok(())
        }
        Ast::Slice { step: 0, .. } => Err(InvalidProjection::NoStep),
        Ast::Slice { .. } => Ok(()),
        Ast::Comparison { lhs, rhs, .. }
        | Ast::Projection { lhs, rhs, .. }
        | Ast::And { lhs, rhs, .. }
        | Ast::Or { lhs, rhs, .. }
        | Ast::Subexpr { lhs, rhs, .. } => below(lhs).and_then(|()| below(rhs)),
        Ast::Condition { predicate, then, .. } => below(predicate).and_then(|()| below(then)),
        Ast::Flatten { node, .. } | Ast::Not { node, .. } | Ast::ObjectValues { node, .. } => {
            below(node)
        }
        Ast::MultiList { elements, .. } => elements.iter().try_for_each(below),
        Ast::MultiHash { elements, .. } => elements.iter().try_for_each(|pair| below(&pair.value)),
        Ast::Function { name, args, .. } => {
            let wrong = || InvalidProjection::WrongArguments { name: name.clone() };
            let takes = jmespath_functions::signature_of(name)
                .ok_or_else(|| InvalidProjection::NoSuchFunction { name: name.clone() })?;
            let is_expression = |at: usize| matches!(args.get(at), Some(Ast::Expref { .. }));
            let expressions = (0..args.len()).filter(|at| is_expression(*at)).count();
            let fits = match takes {
                FunctionSignature::Values(number) => args.len() == number && expressions == 0,
                FunctionSignature::Any => !args.is_empty() && expressions == 0,
                FunctionSignature::Expression(at) => {
                    args.len() == 2 && expressions == 1 && is_expression(at)
                }
            };
            if !fits {
                return Err(wrong());
            }
            args.iter().try_for_each(|argument| match argument {
                Ast::Expref { ast, .. } => below(ast),
                argument => below(argument),
            })
        }
        Ast::Expref { offset, .. } => Err(InvalidProjection::Syntax {
            why: "`&` stands before an argument only".to_owned(),
            at: *offset,
        }),
    }
}
