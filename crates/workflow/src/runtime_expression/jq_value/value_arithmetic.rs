//! The operators `+`, `-`, `*`, `/` and `%`, and negation.

use std::rc::Rc;

use jaq_core::ops::Math;
use jaq_core::{Error, ValR};

use super::{JqObject, JqValue, TEXT_BYTES_PER_VALUE, spend_work, text_size};

impl std::ops::Add for JqValue {
    type Output = ValR<Self>;

    fn add(self, other: Self) -> ValR<Self> {
        spend_work(1);
        match (self, other) {
            (Self::Null, other) | (other, Self::Null) => Ok(other),
            (Self::Int(one), Self::Int(two)) => match one.checked_add(two) {
                Some(sum) => Ok(Self::Int(sum)),
                None => Self::from_finite(one as f64 + two as f64),
            },
            (one @ (Self::Int(_) | Self::Float(_)), two @ (Self::Int(_) | Self::Float(_))) => {
                Self::from_finite(one.as_number() + two.as_number())
            }
            (Self::Text(one), Self::Text(two)) => {
                spend_work(text_size(one.len() + two.len()));
                Ok(Self::Text([&*one, &*two].concat().into()))
            }
            (Self::List(mut one), Self::List(two)) => {
                let list = Rc::make_mut(&mut one);
                for item in &two.items {
                    list.push_item(item.clone());
                }
                Ok(Self::List(one))
            }
            (Self::Object(mut one), Self::Object(two)) => {
                let object = Rc::make_mut(&mut one);
                for (name, value) in &two.members {
                    object.insert_member(Rc::clone(name), value.clone());
                }
                Ok(Self::Object(one))
            }
            (one, two) => Err(Error::math(one, Math::Add, two)),
        }
    }
}

impl JqValue {
    /// Merges nested objects, as jq's `*` does.
    fn merge_objects(mut one: Rc<JqObject>, two: &JqObject) -> Rc<JqObject> {
        let object = Rc::make_mut(&mut one);
        for (name, value) in &two.members {
            let merged = match (object.members.get(name), value) {
                (Some(Self::Object(old)), Self::Object(new)) => {
                    Self::Object(Self::merge_objects(Rc::clone(old), new))
                }
                _ => value.clone(),
            };
            object.insert_member(Rc::clone(name), merged);
        }
        one
    }
}

impl std::ops::Sub for JqValue {
    type Output = ValR<Self>;

    fn sub(self, other: Self) -> ValR<Self> {
        spend_work(1);
        match (self, other) {
            (Self::Int(one), Self::Int(two)) => match one.checked_sub(two) {
                Some(difference) => Ok(Self::Int(difference)),
                None => Self::from_finite(one as f64 - two as f64),
            },
            (one, two) if one.is_number() && two.is_number() => {
                Self::from_finite(one.as_number() - two.as_number())
            }
            (Self::List(one), Self::List(two)) => {
                Ok(one.items.iter().filter(|it| !two.items.contains(it)).cloned().collect())
            }
            (one, two) => Err(Error::math(one, Math::Sub, two)),
        }
    }
}

impl std::ops::Mul for JqValue {
    type Output = ValR<Self>;

    fn mul(self, other: Self) -> ValR<Self> {
        spend_work(1);
        match (self, other) {
            (Self::Int(one), Self::Int(two)) => match one.checked_mul(two) {
                Some(product) => Ok(Self::Int(product)),
                None => Self::from_finite(one as f64 * two as f64),
            },
            (Self::Text(text), Self::Int(times)) | (Self::Int(times), Self::Text(text)) => {
                let Ok(times @ 1..) = usize::try_from(times) else { return Ok(Self::Null) };
                spend_work(
                    (text.len() as u64).saturating_mul(times as u64) / TEXT_BYTES_PER_VALUE as u64,
                );
                Ok(Self::Text(text.repeat(times).into()))
            }
            (one, two) if one.is_number() && two.is_number() => {
                Self::from_finite(one.as_number() * two.as_number())
            }
            (Self::Object(one), Self::Object(two)) => {
                Ok(Self::Object(Self::merge_objects(one, &two)))
            }
            (one, two) => Err(Error::math(one, Math::Mul, two)),
        }
    }
}

impl std::ops::Div for JqValue {
    type Output = ValR<Self>;

    fn div(self, other: Self) -> ValR<Self> {
        spend_work(1);
        match (self, other) {
            (Self::Int(one), Self::Int(two)) if two != 0 && one.checked_rem(two) == Some(0) => {
                Ok(Self::Int(one / two))
            }
            (one, two) if one.is_number() && two.is_number() => {
                Self::from_finite(one.as_number() / two.as_number())
            }
            (Self::Text(text), Self::Text(by)) => {
                spend_work(text_size(text.len()));
                if text.is_empty() {
                    return Ok(Self::List(Rc::default()));
                }
                if by.is_empty() {
                    return Ok(text
                        .chars()
                        .map(|c| Self::from_text(c.encode_utf8(&mut [0; 4])))
                        .collect());
                }
                Ok(text.split(&*by).map(Self::from_text).collect())
            }
            (one, two) => Err(Error::math(one, Math::Div, two)),
        }
    }
}

impl std::ops::Rem for JqValue {
    type Output = ValR<Self>;

    fn rem(self, other: Self) -> ValR<Self> {
        spend_work(1);
        match (self, other) {
            (Self::Int(one), Self::Int(two)) if two != 0 => {
                Ok(Self::Int(one.checked_rem(two).unwrap_or_default()))
            }
            (one, two) if one.is_number() && two.is_number() => {
                Self::from_finite(one.as_number() % two.as_number())
            }
            (one, two) => Err(Error::math(one, Math::Rem, two)),
        }
    }
}

impl std::ops::Neg for JqValue {
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
