//! Evaluates the expressions that discovery writes without the template engine: most calls never start it.
//!
//! The engine evaluates every other expression. For these expressions, both give the same result (`tests/direct.rs`).

use model::BodyEncoding;

use super::encoded_piece::{EncodedPiece, TemplatePosition};
use super::template_context::TemplateContext;
use super::template_functions::{
    body_functions, header_functions, path_functions, query_functions,
};
use super::value_style::{ValueEncoding, ValueShape};

/// An expression that needs no engine. `args.a` may also be written `args["a"]`.
#[derive(Debug, PartialEq)]
pub(super) enum DirectExpression {
    /// `args.a` or `simple(args.a)` in an address.
    Segment(Box<str>),
    /// `query(form("a", args.a, explode=true, reserved=false, whole=false), …)`
    Query(Vec<FormExpression>),
    /// `header(args.a)`
    Header(Box<str>),
    /// `json(args.a)`
    Json(Box<str>),
    /// `json(rest("not", "these", required=false))`
    Rest { named: Vec<Box<str>>, required: bool },
}

/// `form("a", args.b, explode=true, reserved=false, whole=false)`
#[derive(Debug, PartialEq)]
pub(super) struct FormExpression {
    name: Box<str>,
    argument: Box<str>,
    explode: bool,
    reserved: bool,
    whole: bool,
}

impl DirectExpression {
    pub(super) fn parse(source: &str, place: TemplatePosition) -> Option<Self> {
        let mut reader = ExpressionReader(source);
        let read = match place {
            TemplatePosition::Address | TemplatePosition::FollowUpAddress => reader.read_address(),
            TemplatePosition::Header => {
                reader.read_call("header", ExpressionReader::read_argument).map(Self::Header)
            }
            TemplatePosition::Body(BodyEncoding::Json) => {
                reader.read_call("json", ExpressionReader::read_json)
            }
            TemplatePosition::CookieHeader | TemplatePosition::Body(_) => None,
        };
        read.filter(|_| reader.0.is_empty())
    }

    pub(super) fn evaluate(
        &self,
        seen: &TemplateContext<'_>,
    ) -> Result<EncodedPiece, &'static str> {
        match self {
            Self::Segment(name) => path_functions::path_segment(seen.take_argument(name)?),
            Self::Query(forms) => {
                let mut pairs = Vec::new();
                for form in forms {
                    pairs.extend(form.to_pairs(seen)?);
                }
                Ok(query_functions::query_piece(pairs.join("&")))
            }
            Self::Header(name) => header_functions::header_piece(seen.take_argument(name)?, false),
            Self::Json(name) => Ok(body_functions::json_piece(seen.take_argument(name)?)),
            Self::Rest { named, required } => {
                let rest = seen.take_other_arguments(named)?;
                let is_sent = *required || !rest.is_empty();
                Ok(if is_sent {
                    body_functions::json_object_piece(&rest)
                } else {
                    EncodedPiece::Nothing
                })
            }
        }
    }
}

impl FormExpression {
    fn to_pairs(&self, seen: &TemplateContext<'_>) -> Result<Vec<String>, &'static str> {
        let encoding = ValueEncoding::for_query(self.reserved);
        let value = seen.take_argument(&self.argument)?;
        let shape = match self.whole {
            true => ValueShape::from_whole_value(value, encoding),
            false => ValueShape::from_value(value, encoding),
        };
        Ok(shape.to_pairs(&encoding.encode_name(&self.name), ",", self.explode))
    }
}

/// The unread rest of an expression.
struct ExpressionReader<'a>(&'a str);

impl<'a> ExpressionReader<'a> {
    fn read_address(&mut self) -> Option<DirectExpression> {
        match self.0 {
            source if source.starts_with("query(") => self.read_call("query", |reader| {
                let mut forms = vec![reader.read_form()?];
                while reader.skip_comma() {
                    forms.push(reader.read_form()?);
                }
                Some(DirectExpression::Query(forms))
            }),
            source if source.starts_with("simple(") => {
                self.read_call("simple", Self::read_argument).map(DirectExpression::Segment)
            }
            _ => self.read_argument().map(DirectExpression::Segment),
        }
    }

    fn read_json(&mut self) -> Option<DirectExpression> {
        if !self.0.starts_with("rest(") {
            return self.read_argument().map(DirectExpression::Json);
        }
        self.read_call("rest", |reader| {
            let mut named = Vec::new();
            while let Some(name) = reader.read_string() {
                named.push(name);
                if !reader.skip_comma() {
                    return Some(DirectExpression::Rest { named, required: false });
                }
            }
            let required = if reader.0.starts_with(')') && named.is_empty() {
                false
            } else {
                reader.read_flag("required")?
            };
            Some(DirectExpression::Rest { named, required })
        })
    }

    fn read_form(&mut self) -> Option<FormExpression> {
        self.read_call("form", |reader| {
            let name = reader.read_string()?;
            let argument = reader.expect_comma()?.read_argument()?;
            let [mut explode, mut reserved, mut whole] = [None; 3];
            while reader.skip_comma() {
                let flags =
                    [("explode", &mut explode), ("reserved", &mut reserved), ("whole", &mut whole)];
                let said = flags.into_iter().find(|(name, _)| reader.0.starts_with(name))?;
                match said {
                    (name, flag @ None) => *flag = Some(reader.read_flag(name)?),
                    (_, Some(_)) => return None,
                }
            }
            let (explode, reserved) = (explode.unwrap_or(true), reserved.unwrap_or(false));
            Some(FormExpression {
                name,
                argument,
                explode,
                reserved,
                whole: whole.unwrap_or(false),
            })
        })
    }

    fn read_call<T>(&mut self, name: &str, inside: impl Fn(&mut Self) -> Option<T>) -> Option<T> {
        self.skip_text(name)?.skip_text("(")?;
        let read = inside(self)?;
        self.skip_text(")")?;
        Some(read)
    }

    /// Reads `args.a` or `args["a"]`.
    fn read_argument(&mut self) -> Option<Box<str>> {
        self.skip_text("args")?;
        if self.skip_text("[").is_some() {
            let name = self.read_string()?;
            self.skip_text("]")?;
            return Some(name);
        }
        self.skip_text(".")?;
        let is_in_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = self.0.find(|c| !is_in_name(c)).unwrap_or(self.0.len());
        let (name, behind) = self.0.split_at(end);
        self.0 = behind;
        name.starts_with(|c: char| !c.is_ascii_digit()).then(|| name.into())
    }

    /// Reads a string literal without escapes.
    fn read_string(&mut self) -> Option<Box<str>> {
        let (text, behind) = self.0.strip_prefix('"')?.split_once('"')?;
        self.0 = behind;
        (!text.contains('\\')).then(|| text.into())
    }

    /// Reads `name=true` or `name=false`.
    fn read_flag(&mut self, name: &str) -> Option<bool> {
        self.skip_text(name)?.skip_text("=")?;
        match self.skip_text("true") {
            Some(_) => Some(true),
            None => self.skip_text("false").map(|_| false),
        }
    }

    fn skip_comma(&mut self) -> bool {
        self.skip_text(", ").is_some()
    }

    fn expect_comma(&mut self) -> Option<&mut Self> {
        self.skip_comma().then_some(self)
    }

    fn skip_text(&mut self, text: &str) -> Option<&mut Self> {
        self.0 = self.0.strip_prefix(text)?;
        Some(self)
    }
}
