//! The order of values in jq.

use std::cmp::Ordering;
use std::rc::Rc;

use super::{JqObject, JqValue, spend_work, text_size};

impl Ord for JqValue {
    fn cmp(&self, other: &Self) -> Ordering {
        spend_work(1);
        match (self, other) {
            (Self::Bool(one), Self::Bool(two)) => one.cmp(two),
            (Self::Int(one), Self::Int(two)) => one.cmp(two),
            (Self::Int(one), Self::Float(two)) => (*one as f64).total_cmp(two),
            (Self::Float(one), Self::Int(two)) => one.total_cmp(&(*two as f64)),
            // Minus zero equals zero.
            (Self::Float(one), Self::Float(two)) => (one + 0.0).total_cmp(&(two + 0.0)),
            (Self::Text(one), Self::Text(two)) => {
                spend_work(text_size(one.len().min(two.len())));
                one.cmp(two)
            }
            (Self::List(one), Self::List(two)) => one.items.cmp(&two.items),
            (Self::Object(one), Self::Object(two)) => {
                let (one, two) = (one.sorted_members(), two.sorted_members());
                let names = |members: &[(&Rc<str>, &Self)]| {
                    members.iter().map(|(name, _)| Rc::clone(name)).collect::<Vec<_>>()
                };
                let values = |members: Vec<(&'_ Rc<str>, &'_ Self)>| {
                    members.into_iter().map(|(_, value)| value.clone()).collect::<Vec<_>>()
                };
                names(&one).cmp(&names(&two)).then_with(|| values(one).cmp(&values(two)))
            }
            _ => self.type_rank().cmp(&other.type_rank()),
        }
    }
}

impl JqObject {
    fn sorted_members(&self) -> Vec<(&Rc<str>, &JqValue)> {
        spend_work(2 * self.members.len() as u64);
        let mut members: Vec<_> = self.members.iter().collect();
        members.sort_by_key(|(name, _)| *name);
        members
    }
}

impl JqValue {
    /// The order of value types in jq.
    fn type_rank(&self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Bool(_) => 1,
            Self::Int(_) | Self::Float(_) => 2,
            Self::Text(_) => 3,
            Self::List(_) => 4,
            Self::Object(_) => 5,
        }
    }
}

impl PartialOrd for JqValue {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for JqValue {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for JqValue {}
