//! Evaluates the expressions that discovery writes without the template engine: most calls never start it.
//!
//! The engine evaluates every other expression. For these expressions, both give the same result (`tests/direct.rs`).

use model::BodyEncoding;

use super::context::Seen;
use super::functions::{body, header, path, query};
use super::piece::{Piece, Place};
use super::style::{Encoding, Shape};

/// An expression that needs no engine. `args.a` may also be written `args["a"]`.
#[derive(Debug, PartialEq)]
pub(super) enum Direct {
    /// `args.a` or `simple(args.a)` in an address.
    Segment(Box<str>),
    /// `query(form("a", args.a, explode=true, reserved=false, whole=false), …)`
    Query(Vec<Form>),
    /// `header(args.a)`
    Header(Box<str>),
    /// `json(args.a)`
    Json(Box<str>),
    /// `json(rest("not", "these", required=false))`
    Rest { named: Vec<Box<str>>, required: bool },
}

/// `form("a", args.b, explode=true, reserved=false, whole=false)`
#[derive(Debug, PartialEq)]
pub(super) struct Form {
    name: Box<str>,
    argument: Box<str>,
    explode: bool,
    reserved: bool,
    whole: bool,
}

impl Direct {
    pub(super) fn read(source: &str, place: Place) -> Option<Self> {
        let mut reader = Reader(source);
        let read = match place {
            Place::Address | Place::NextAddress => reader.address(),
            Place::Header => reader.call("header", Reader::argument).map(Self::Header),
            Place::Body(BodyEncoding::Json) => reader.call("json", Reader::json),
            Place::CookieHeader | Place::Body(_) => None,
        };
        read.filter(|_| reader.0.is_empty())
    }

    pub(super) fn evaluate(&self, seen: &Seen<'_>) -> Result<Piece, &'static str> {
        match self {
            Self::Segment(name) => path::segment(seen.take(name)?),
            Self::Query(forms) => {
                let mut pairs = Vec::new();
                for form in forms {
                    pairs.extend(form.pairs(seen)?);
                }
                Ok(query::question(pairs.join("&")))
            }
            Self::Header(name) => header::written(seen.take(name)?, false),
            Self::Json(name) => Ok(body::written(seen.take(name)?)),
            Self::Rest { named, required } => {
                let rest = seen.rest(named)?;
                let is_sent = *required || !rest.is_empty();
                Ok(if is_sent { body::written_members(&rest) } else { Piece::Nothing })
            }
        }
    }
}

impl Form {
    fn pairs(&self, seen: &Seen<'_>) -> Result<Vec<String>, &'static str> {
        let encoding = Encoding::of_query(self.reserved);
        let value = seen.take(&self.argument)?;
        let shape = match self.whole {
            true => Shape::whole(value, encoding),
            false => Shape::of(value, encoding),
        };
        Ok(shape.pairs(&encoding.name(&self.name), ",", self.explode))
    }
}

/// The unread rest of an expression.
struct Reader<'a>(&'a str);

impl<'a> Reader<'a> {
    fn address(&mut self) -> Option<Direct> {
        match self.0 {
            source if source.starts_with("query(") => self.call("query", |reader| {
                let mut forms = vec![reader.form()?];
                while reader.comma() {
                    forms.push(reader.form()?);
                }
                Some(Direct::Query(forms))
            }),
            source if source.starts_with("simple(") => {
                self.call("simple", Self::argument).map(Direct::Segment)
            }
            _ => self.argument().map(Direct::Segment),
        }
    }

    fn json(&mut self) -> Option<Direct> {
        if !self.0.starts_with("rest(") {
            return self.argument().map(Direct::Json);
        }
        self.call("rest", |reader| {
            let mut named = Vec::new();
            while let Some(name) = reader.text() {
                named.push(name);
                if !reader.comma() {
                    return Some(Direct::Rest { named, required: false });
                }
            }
            let required = if reader.0.starts_with(')') && named.is_empty() {
                false
            } else {
                reader.flag("required")?
            };
            Some(Direct::Rest { named, required })
        })
    }

    fn form(&mut self) -> Option<Form> {
        self.call("form", |reader| {
            let name = reader.text()?;
            let argument = reader.then_comma()?.argument()?;
            let [mut explode, mut reserved, mut whole] = [None; 3];
            while reader.comma() {
                let flags =
                    [("explode", &mut explode), ("reserved", &mut reserved), ("whole", &mut whole)];
                let said = flags.into_iter().find(|(name, _)| reader.0.starts_with(name))?;
                match said {
                    (name, flag @ None) => *flag = Some(reader.flag(name)?),
                    (_, Some(_)) => return None,
                }
            }
            let (explode, reserved) = (explode.unwrap_or(true), reserved.unwrap_or(false));
            Some(Form { name, argument, explode, reserved, whole: whole.unwrap_or(false) })
        })
    }

    fn call<T>(&mut self, name: &str, inside: impl Fn(&mut Self) -> Option<T>) -> Option<T> {
        self.skip(name)?.skip("(")?;
        let read = inside(self)?;
        self.skip(")")?;
        Some(read)
    }

    /// Reads `args.a` or `args["a"]`.
    fn argument(&mut self) -> Option<Box<str>> {
        self.skip("args")?;
        if self.skip("[").is_some() {
            let name = self.text()?;
            self.skip("]")?;
            return Some(name);
        }
        self.skip(".")?;
        let is_in_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = self.0.find(|c| !is_in_name(c)).unwrap_or(self.0.len());
        let (name, behind) = self.0.split_at(end);
        self.0 = behind;
        name.starts_with(|c: char| !c.is_ascii_digit()).then(|| name.into())
    }

    /// Reads a string literal without escapes.
    fn text(&mut self) -> Option<Box<str>> {
        let (text, behind) = self.0.strip_prefix('"')?.split_once('"')?;
        self.0 = behind;
        (!text.contains('\\')).then(|| text.into())
    }

    /// Reads `name=true` or `name=false`.
    fn flag(&mut self, name: &str) -> Option<bool> {
        self.skip(name)?.skip("=")?;
        match self.skip("true") {
            Some(_) => Some(true),
            None => self.skip("false").map(|_| false),
        }
    }

    fn comma(&mut self) -> bool {
        self.skip(", ").is_some()
    }

    fn then_comma(&mut self) -> Option<&mut Self> {
        self.comma().then_some(self)
    }

    fn skip(&mut self, text: &str) -> Option<&mut Self> {
        self.0 = self.0.strip_prefix(text)?;
        Some(self)
    }
}
