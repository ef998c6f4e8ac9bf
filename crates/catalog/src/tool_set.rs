//! A set of tools: a bitmap over their slots in shared chunks, so that changing one tool copies one chunk of 512 bytes.

use std::sync::Arc;

/// Index of a tool in the snapshot. A slot is reused after its tool was removed.
pub type Slot = u32;

const CHUNK_WORDS: usize = 64;
const CHUNK_BITS: u32 = 64 * CHUNK_WORDS as u32;
type BitmapChunk = [u64; CHUNK_WORDS];

/// A set of slots, cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ToolSet {
    chunks: Vec<Option<Arc<BitmapChunk>>>,
    len: usize,
}

fn bit_position(slot: Slot) -> (usize, usize, u64) {
    let (piece, bit) = (slot / CHUNK_BITS, slot % CHUNK_BITS);
    (piece as usize, (bit / 64) as usize, 1 << (bit % 64))
}

impl ToolSet {
    /// Number of tools.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// True if the tool is in the set.
    pub fn contains(&self, slot: Slot) -> bool {
        let (piece, word, bit) = bit_position(slot);
        self.chunks.get(piece).and_then(Option::as_ref).is_some_and(|piece| piece[word] & bit != 0)
    }

    /// Inserts or removes a tool; returns true if the set changed.
    pub fn set_member(&mut self, slot: Slot, member: bool) -> bool {
        if self.contains(slot) == member {
            return false;
        }
        let (piece, word, bit) = bit_position(slot);
        if self.chunks.len() <= piece {
            self.chunks.resize(piece + 1, None);
        }
        let piece =
            Arc::make_mut(self.chunks[piece].get_or_insert_with(|| Arc::new([0; CHUNK_WORDS])));
        piece[word] ^= bit;
        self.len = if member { self.len + 1 } else { self.len - 1 };
        true
    }

    /// The tools in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        let mut both = Self::default();
        for (one, two) in self.chunks.iter().zip(&other.chunks) {
            let (Some(one), Some(two)) = (one, two) else {
                both.chunks.push(None);
                continue;
            };
            let piece: BitmapChunk = std::array::from_fn(|word| one[word] & two[word]);
            both.push_chunk(piece);
        }
        both
    }

    /// The tools in either set.
    pub fn union(&self, other: &Self) -> Self {
        let mut either = Self::default();
        for index in 0..self.chunks.len().max(other.chunks.len()) {
            let piece = |set: &Self| set.chunks.get(index).cloned().flatten();
            match (piece(self), piece(other)) {
                (Some(one), Some(two)) => {
                    either.push_chunk(std::array::from_fn(|word| one[word] | two[word]))
                }
                (Some(one), None) | (None, Some(one)) => {
                    either.len += count_members(&one);
                    either.chunks.push(Some(one));
                }
                (None, None) => either.chunks.push(None),
            }
        }
        either
    }

    /// The tools in this set and not in the other.
    pub fn difference(&self, other: &Self) -> Self {
        let mut rest = Self::default();
        for (index, one) in self.chunks.iter().enumerate() {
            match (one, other.chunks.get(index).and_then(Option::as_ref)) {
                (None, _) => rest.chunks.push(None),
                (Some(one), None) => {
                    rest.len += count_members(one);
                    rest.chunks.push(Some(Arc::clone(one)));
                }
                (Some(one), Some(two)) => {
                    rest.push_chunk(std::array::from_fn(|word| one[word] & !two[word]));
                }
            }
        }
        rest
    }

    /// The union of the sets, intersected with `limit`, chunk by chunk: a thousand sets cost one pass over each.
    pub fn union_within(sets: &[&Self], limit: &Self) -> Self {
        let mut any = Self::default();
        for (index, limit) in limit.chunks.iter().enumerate() {
            let Some(limit) = limit else {
                any.chunks.push(None);
                continue;
            };
            let mut sum: BitmapChunk = [0; CHUNK_WORDS];
            for piece in sets.iter().filter_map(|set| set.chunks.get(index)?.as_deref()) {
                for (word, bits) in sum.iter_mut().zip(piece) {
                    *word |= bits;
                }
            }
            for (word, bits) in sum.iter_mut().zip(&**limit) {
                *word &= bits;
            }
            any.push_chunk(sum);
        }
        any
    }

    /// Memory in bytes if no chunk is shared.
    pub fn memory_bytes(&self) -> usize {
        self.chunks.iter().flatten().count() * size_of::<BitmapChunk>() + self.chunks.len() * 8
    }

    fn push_chunk(&mut self, piece: BitmapChunk) {
        let members = count_members(&piece);
        self.len += members;
        self.chunks.push((0 < members).then(|| Arc::new(piece)));
    }

    /// The slots in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        let pieces = (0_u32..)
            .zip(&self.chunks)
            .filter_map(|(index, piece)| Some((index, piece.as_deref()?)));
        let words = pieces.flat_map(|(index, piece)| {
            (0_u32..).zip(piece).map(move |(word, bits)| (index * CHUNK_BITS + word * 64, *bits))
        });
        words.flat_map(|(first, bits)| {
            (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| first + bit)
        })
    }
}

fn count_members(piece: &BitmapChunk) -> usize {
    piece.iter().map(|word| word.count_ones() as usize).sum()
}

impl PartialEq for ToolSet {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}
impl Eq for ToolSet {}

impl FromIterator<Slot> for ToolSet {
    fn from_iter<I: IntoIterator<Item = Slot>>(slots: I) -> Self {
        let mut set = Self::default();
        for slot in slots {
            set.set_member(slot, true);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn slots() -> impl Strategy<Value = BTreeSet<Slot>> {
        proptest::collection::btree_set(0..3 * CHUNK_BITS, 0..40)
    }

    proptest! {
        #[test]
        fn it_behaves_like_a_set_of_numbers(one in slots(), two in slots()) {
            let (a, b): (ToolSet, ToolSet) = (one.iter().copied().collect(), two.iter().copied().collect());
            prop_assert_eq!(&a.iter().collect::<BTreeSet<_>>(), &one);
            prop_assert_eq!(a.len(), one.len());
            let both = a.intersection(&b);
            prop_assert_eq!(both.iter().collect::<BTreeSet<_>>(), &one & &two);
            prop_assert_eq!(both.len(), (&one & &two).len());
            let either = a.union(&b);
            prop_assert_eq!(either.iter().collect::<BTreeSet<_>>(), &one | &two);
            prop_assert_eq!(either.len(), (&one | &two).len());
            let rest = a.difference(&b);
            prop_assert_eq!(rest.iter().collect::<BTreeSet<_>>(), &one - &two);
            prop_assert_eq!(rest.len(), (&one - &two).len());
        }

        #[test]
        fn the_union_within_a_limit_equals_the_intersected_union(
            sets in proptest::collection::vec(slots(), 0..5), limit in slots(),
        ) {
            let given: Vec<ToolSet> =
                sets.iter().map(|set| set.iter().copied().collect()).collect();
            let cut = limit.iter().copied().collect();
            let any = ToolSet::union_within(&given.iter().collect::<Vec<_>>(), &cut);
            let expected: BTreeSet<_> = sets.into_iter().flatten().filter(|slot| limit.contains(slot)).collect();
            prop_assert_eq!(any.len(), expected.len());
            prop_assert_eq!(any.iter().collect::<BTreeSet<_>>(), expected);
        }

        #[test]
        fn a_removed_member_leaves_no_trace(one in slots(), gone in slots()) {
            let mut set: ToolSet = one.iter().copied().collect();
            for slot in &gone {
                set.set_member(*slot, false);
            }
            prop_assert_eq!(set, (&one - &gone).into_iter().collect::<ToolSet>());
        }
    }

    #[test]
    fn a_clone_does_not_see_later_changes() {
        let mut set: ToolSet = [1, 5000].into_iter().collect();
        let before = set.clone();
        set.set_member(5000, false);
        assert!(before.contains(5000) && !set.contains(5000));
        assert!(Arc::ptr_eq(before.chunks[0].as_ref().unwrap(), set.chunks[0].as_ref().unwrap()));
    }
}
