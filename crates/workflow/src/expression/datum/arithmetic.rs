//! The operators `+`, `-`, `*`, `/` and `%`, and negation.

use std::rc::Rc;

use jaq_core::ops::Math;
use jaq_core::{Error, ValR};

use super::{Datum, Object, TEXT, size_of_text, spend};

impl std::ops::Add for Datum {
    type Output = ValR<Self>;

    fn add(self, other: Self) -> ValR<Self> {
        spend(1);
        match (self, other) {
            (Self::Null, other) | (other, Self::Null) => Ok(other),
            (Self::Int(one), Self::Int(two)) => match one.checked_add(two) {
                Some(sum) => Ok(Self::Int(sum)),
                None => Self::number(one as f64 + two as f64),
            },
            (one @ (Self::Int(_) | Self::Float(_)), two @ (Self::Int(_) | Self::Float(_))) => {
                Self::number(one.as_number() + two.as_number())
            }
            (Self::Text(one), Self::Text(two)) => {
                spend(size_of_text(one.len() + two.len()));
                Ok(Self::Text([&*one, &*two].concat().into()))
            }
            (Self::List(mut one), Self::List(two)) => {
                let list = Rc::make_mut(&mut one);
                for item in &two.items {
                    list.push(item.clone());
                }
                Ok(Self::List(one))
            }
            (Self::Object(mut one), Self::Object(two)) => {
                let object = Rc::make_mut(&mut one);
                for (name, value) in &two.members {
                    object.put(Rc::clone(name), value.clone());
                }
                Ok(Self::Object(one))
            }
            (one, two) => Err(Error::math(one, Math::Add, two)),
        }
    }
}

impl Datum {
    /// Merges nested objects, as jq's `*` does.
    fn merge(mut one: Rc<Object>, two: &Object) -> Rc<Object> {
        let object = Rc::make_mut(&mut one);
        for (name, value) in &two.members {
            let merged = match (object.members.get(name), value) {
                (Some(Self::Object(old)), Self::Object(new)) => {
                    Self::Object(Self::merge(Rc::clone(old), new))
                }
                _ => value.clone(),
            };
            object.put(Rc::clone(name), merged);
        }
        one
    }
}

impl std::ops::Sub for Datum {
    type Output = ValR<Self>;

    fn sub(self, other: Self) -> ValR<Self> {
        spend(1);
        match (self, other) {
            (Self::Int(one), Self::Int(two)) => match one.checked_sub(two) {
                Some(difference) => Ok(Self::Int(difference)),
                None => Self::number(one as f64 - two as f64),
            },
            (one, two) if one.is_number() && two.is_number() => {
                Self::number(one.as_number() - two.as_number())
            }
            (Self::List(one), Self::List(two)) => {
                Ok(one.items.iter().filter(|it| !two.items.contains(it)).cloned().collect())
            }
            (one, two) => Err(Error::math(one, Math::Sub, two)),
        }
    }
}

impl std::ops::Mul for Datum {
    type Output = ValR<Self>;

    fn mul(self, other: Self) -> ValR<Self> {
        spend(1);
        match (self, other) {
            (Self::Int(one), Self::Int(two)) => match one.checked_mul(two) {
                Some(product) => Ok(Self::Int(product)),
                None => Self::number(one as f64 * two as f64),
            },
            (Self::Text(text), Self::Int(times)) | (Self::Int(times), Self::Text(text)) => {
                let Ok(times @ 1..) = usize::try_from(times) else { return Ok(Self::Null) };
                spend((text.len() as u64).saturating_mul(times as u64) / TEXT as u64);
                Ok(Self::Text(text.repeat(times).into()))
            }
            (one, two) if one.is_number() && two.is_number() => {
                Self::number(one.as_number() * two.as_number())
            }
            (Self::Object(one), Self::Object(two)) => Ok(Self::Object(Self::merge(one, &two))),
            (one, two) => Err(Error::math(one, Math::Mul, two)),
        }
    }
}

impl std::ops::Div for Datum {
    type Output = ValR<Self>;

    fn div(self, other: Self) -> ValR<Self> {
        spend(1);
        match (self, other) {
            (Self::Int(one), Self::Int(two)) if two != 0 && one.checked_rem(two) == Some(0) => {
                Ok(Self::Int(one / two))
            }
            (one, two) if one.is_number() && two.is_number() => {
                Self::number(one.as_number() / two.as_number())
            }
            (Self::Text(text), Self::Text(by)) => {
                spend(size_of_text(text.len()));
                if text.is_empty() {
                    return Ok(Self::List(Rc::default()));
                }
                if by.is_empty() {
                    return Ok(text
                        .chars()
                        .map(|c| Self::text(c.encode_utf8(&mut [0; 4])))
                        .collect());
                }
                Ok(text.split(&*by).map(Self::text).collect())
            }
            (one, two) => Err(Error::math(one, Math::Div, two)),
        }
    }
}

impl std::ops::Rem for Datum {
    type Output = ValR<Self>;

    fn rem(self, other: Self) -> ValR<Self> {
        spend(1);
        match (self, other) {
            (Self::Int(one), Self::Int(two)) if two != 0 => {
                Ok(Self::Int(one.checked_rem(two).unwrap_or_default()))
            }
            (one, two) if one.is_number() && two.is_number() => {
                Self::number(one.as_number() % two.as_number())
            }
            (one, two) => Err(Error::math(one, Math::Rem, two)),
        }
    }
}

impl std::ops::Neg for Datum {
    type Output = ValR<Self>;

    fn neg(self) -> ValR<Self> {
        match self {
            Self::Int(whole) => {
                Ok(whole.checked_neg().map_or(Self::Float(-(whole as f64)), Self::Int))
            }
            Self::Float(number) => Ok(Self::Float(-number)),
            other => Err(Error::typ(other, "a number")),
        }
    }
}
