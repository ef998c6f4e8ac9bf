//! The interpreter's access to values: taking them apart, building and modifying them.

use std::rc::Rc;

use jaq_core::path::Opt;
use jaq_core::val::Range;
use jaq_core::{Error, Exn, ValR, ValX};

use super::{JqArray, JqError, JqObject, JqValue, spend_work, text_size};

impl jaq_core::ValT for JqValue {
    fn from_num(text: &str) -> ValR<Self> {
        spend_work(1);
        if let Ok(whole) = text.parse() {
            return Ok(Self::Int(whole));
        }
        text.parse().map_or_else(|_| Err(Error::str("this is no number")), Self::from_finite)
    }

    fn from_map<I: IntoIterator<Item = (Self, Self)>>(members: I) -> ValR<Self> {
        let mut object = JqObject::default();
        for (name, value) in members {
            match name {
                Self::Text(name) => object.insert_member(name, value),
                other => return Err(Error::typ(other, "the name of a member")),
            }
        }
        Ok(Self::Object(Rc::new(object)))
    }

    fn key_values(self) -> Box<dyn Iterator<Item = Result<(Self, Self), JqError>>> {
        match self {
            Self::List(list) => {
                let items = Rc::unwrap_or_clone(list).items.into_iter().enumerate();
                Box::new(items.map(|(place, item)| Ok((Self::from(place), item))))
            }
            Self::Object(object) => {
                let members = Rc::unwrap_or_clone(object).members.into_iter();
                Box::new(members.map(|(name, value)| {
                    spend_work(1);
                    Ok((Self::Text(name), value))
                }))
            }
            other => Box::new(std::iter::once(Err(Error::typ(other, "a list or an object")))),
        }
    }

    fn values(self) -> Box<dyn Iterator<Item = ValR<Self>>> {
        match self {
            Self::List(list) => Box::new(Rc::unwrap_or_clone(list).items.into_iter().map(Ok)),
            Self::Object(object) => {
                let members = Rc::unwrap_or_clone(object).members.into_iter();
                Box::new(members.map(|(_, value)| Ok(value)))
            }
            other => Box::new(std::iter::once(Err(Error::typ(other, "a list or an object")))),
        }
    }

    fn index(self, index: &Self) -> ValR<Self> {
        spend_work(1);
        match (&self, index) {
            (Self::Null, _) => Ok(Self::Null),
            (Self::Object(object), Self::Text(name)) => {
                Ok(object.members.get(name).cloned().unwrap_or(Self::Null))
            }
            (Self::List(list), Self::Int(_) | Self::Float(_)) => {
                let place = index.index_within(list.items.len());
                let item = place.and_then(|place| list.items.get(place));
                Ok(item.cloned().unwrap_or(Self::Null))
            }
            (Self::List(_), Self::List(_)) => self.indices_of(index),
            (Self::List(_) | Self::Text(_), Self::Object(_)) => match index.range_of_object() {
                Some(range) => self.range(range),
                None => Ok(Self::Null),
            },
            _ => Err(Error::index(self, index.clone())),
        }
    }

    fn range(self, range: Range<&Self>) -> ValR<Self> {
        if let Self::Null = self {
            return Ok(Self::Null);
        }
        let (start, end) = self.slice_bounds(range)?;
        Ok(match self {
            Self::Text(text) => {
                let part: String = text.chars().skip(start).take(end - start).collect();
                Self::from_text(&part)
            }
            Self::List(list) => list.items.iter().skip(start).take(end - start).cloned().collect(),
            other => other,
        })
    }

    fn map_values<'a, I: Iterator<Item = ValX<'a, Self>>>(
        self,
        opt: Opt,
        f: impl Fn(Self) -> I,
    ) -> ValX<'a, Self> {
        match self {
            Self::List(list) => Rc::unwrap_or_clone(list).items.into_iter().flat_map(f).collect(),
            Self::Object(object) => {
                let mut changed = JqObject::default();
                for (name, value) in Rc::unwrap_or_clone(object).members {
                    if let Some(value) = f(value).next() {
                        changed.insert_member(name, value?);
                    }
                }
                Ok(Self::Object(Rc::new(changed)))
            }
            other => opt.fail(other, |it| Exn::from(Error::typ(it, "a list or an object"))),
        }
    }

    fn map_index<'a, I: Iterator<Item = ValX<'a, Self>>>(
        self,
        index: &Self,
        opt: Opt,
        f: impl Fn(Self) -> I,
    ) -> ValX<'a, Self> {
        if let (Self::List(_) | Self::Text(_), Some(range)) = (&self, index.range_of_object()) {
            return self.map_range(range, opt, f);
        }
        match (self, index) {
            // As in jq, an update creates the missing object or array.
            (Self::Null, Self::Text(_)) => Self::Object(Rc::default()).map_index(index, opt, f),
            (Self::Null, Self::Int(_)) => Self::List(Rc::default()).map_index(index, opt, f),
            (Self::Object(mut object), Self::Text(name)) => {
                let changed = Rc::make_mut(&mut object);
                match f(changed.take_member(name)).next().transpose()? {
                    Some(new) => changed.insert_member(Rc::clone(name), new),
                    None => changed.remove_member(name),
                }
                Ok(Self::Object(object))
            }
            (Self::List(mut list), Self::Int(place)) => {
                let length = list.items.len();
                let place = match *place < 0 {
                    true => index.index_within(length),
                    false => usize::try_from(*place).ok(),
                };
                let Some(place) = place else {
                    return opt.fail(Self::List(list), |_| {
                        Exn::from(Error::str("the place is before the beginning of the list"))
                    });
                };
                let changed = Rc::make_mut(&mut list);
                let new = f(changed.take_item(place)).next().transpose()?;
                changed.set_item(place, new);
                Ok(Self::List(list))
            }
            (other, _) => opt.fail(other, |it| Exn::from(Error::index(it, index.clone()))),
        }
    }

    fn map_range<'a, I: Iterator<Item = ValX<'a, Self>>>(
        self,
        range: Range<&Self>,
        opt: Opt,
        f: impl Fn(Self) -> I,
    ) -> ValX<'a, Self> {
        let (start, end) = match self.slice_bounds(range) {
            Ok(bounds) => bounds,
            Err(error) => return opt.fail(self, |_| Exn::from(error)),
        };
        let Self::List(list) = self else {
            return opt.fail(self, |it| Exn::from(Error::typ(it, "a list")));
        };
        let part = list.items.iter().skip(start).take(end - start).cloned().collect();
        let new = match f(part).next().transpose()? {
            Some(Self::List(new)) => new,
            None => Rc::default(),
            Some(other) => return Err(Error::typ(other, "a list").into()),
        };
        let before = list.items.iter().take(start);
        let after = list.items.iter().skip(end);
        Ok(before.chain(&new.items).chain(after).cloned().collect())
    }

    fn as_bool(&self) -> bool {
        !matches!(self, Self::Null | Self::Bool(false))
    }

    fn into_string(self) -> Self {
        match self {
            Self::Text(_) => self,
            other => Self::from(other.to_string()),
        }
    }
}

impl JqObject {
    /// Takes a value out for an update: with a single owner, the update needs no copy.
    fn take_member(&mut self, name: &str) -> JqValue {
        let Some(value) = self.members.get_mut(name) else { return JqValue::Null };
        let lifted = std::mem::replace(value, JqValue::Null);
        self.shape.replace_with_null(&lifted);
        lifted
    }

    fn remove_member(&mut self, name: &str) {
        spend_work(self.members.len() as u64);
        if let Some(old) = self.members.shift_remove(name) {
            self.shape.remove_value(&old);
        }
    }
}

impl JqArray {
    /// Takes an item out for an update: with a single owner, the update needs no copy.
    fn take_item(&mut self, place: usize) -> JqValue {
        let Some(item) = self.items.get_mut(place) else { return JqValue::Null };
        let lifted = std::mem::replace(item, JqValue::Null);
        self.shape.replace_with_null(&lifted);
        lifted
    }

    /// Sets or removes an item. Setting an item behind the end fills the gap with nulls.
    fn set_item(&mut self, place: usize, new: Option<JqValue>) {
        match new {
            None if place < self.items.len() => {
                spend_work(self.items.len() as u64);
                let old = self.items.remove(place);
                self.shape.remove_value(&old);
            }
            None => {}
            Some(new) => {
                while self.items.len() <= place {
                    self.push_item(JqValue::Null);
                }
                self.shape.add_value(&new);
                if let Some(item) = self.items.get_mut(place) {
                    let old = std::mem::replace(item, new);
                    self.shape.remove_value(&old);
                }
            }
        }
    }
}

impl jaq_std::ValT for JqValue {
    fn into_seq<S: FromIterator<Self>>(self) -> Result<S, Self> {
        match self {
            Self::List(list) => Ok(Rc::unwrap_or_clone(list).items.into_iter().collect()),
            other => Err(other),
        }
    }

    fn is_int(&self) -> bool {
        matches!(self, Self::Int(_))
    }

    fn as_isize(&self) -> Option<isize> {
        match self {
            Self::Int(whole) => isize::try_from(*whole).ok(),
            _ => None,
        }
    }

    fn as_f64(&self) -> Option<f64> {
        self.is_number().then(|| self.as_number())
    }

    fn is_utf8_str(&self) -> bool {
        matches!(self, Self::Text(_))
    }

    fn as_bytes(&self) -> Option<&[u8]> {
        let text = self.as_str()?;
        // The caller reads all bytes.
        spend_work(text_size(text.len()));
        Some(text.as_bytes())
    }

    fn as_sub_str(&self, part: &[u8]) -> Self {
        Self::from_text(&String::from_utf8_lossy(part))
    }

    fn from_utf8_bytes(bytes: impl AsRef<[u8]> + Send + 'static) -> Self {
        Self::from_text(&String::from_utf8_lossy(bytes.as_ref()))
    }
}
