//! The few numbers of the ranking. `toolcrib eval search --cross-validate` says whether others would be better.

/// Where a word stands in what is known of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    /// What it is called.
    Name,
    /// What people call it.
    Title,
    /// Keywords, tags and labels.
    Keyword,
    /// Whose it is.
    Source,
    /// What it does.
    Description,
    /// What its arguments are called.
    Parameter,
    /// What its arguments are for.
    ParameterDescription,
    /// What an argument may look like.
    Example,
}

impl Field {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Name,
        Self::Title,
        Self::Keyword,
        Self::Source,
        Self::Description,
        Self::Parameter,
        Self::ParameterDescription,
        Self::Example,
    ];
}

/// How words in one field count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FieldWeight {
    /// How much a word counts that stands there once, in a text of the usual length.
    pub weight: f32,
    /// From 0, a longer text makes no difference, to 1, one of twice the length makes each word count half.
    pub dilution: f32,
    /// The usual number of words. Fixed, so that what an agent finds does not depend on tools that it does not have.
    pub usual_length: f32,
}

/// The numbers of the ranking.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// In the order of [`Field::ALL`].
    pub fields: [FieldWeight; 8],
    /// How soon more of the same word makes no more difference (`k1` of BM25).
    pub saturation: f32,
    /// How much more a tool counts whose whole name was said.
    pub naming: f32,
    /// What a word with the same stem is worth, beside the word itself.
    pub same_stem: f32,
    /// What a word that means about the same is worth.
    pub synonym: f32,
    /// What a word is worth that is one edit away from one that nobody has.
    pub near: f32,
    /// How much being near in meaning counts, beside having the words (1).
    pub meaning: f32,
}

impl Default for Weights {
    fn default() -> Self {
        let field = |weight, dilution, usual_length| FieldWeight { weight, dilution, usual_length };
        Self {
            fields: [
                field(3.0, 0.3, 3.0),
                field(2.0, 0.3, 3.0),
                field(0.5, 0.3, 3.0),
                field(2.0, 0.0, 2.0),
                field(2.0, 0.6, 12.0),
                field(0.5, 0.5, 4.0),
                field(0.4, 0.5, 30.0),
                field(0.3, 0.5, 8.0),
            ],
            saturation: 3.0,
            naming: 0.25,
            same_stem: 0.7,
            synonym: 0.2,
            near: 0.7,
            meaning: 2.5,
        }
    }
}

impl Weights {
    pub(super) fn of(&self, field: Field) -> FieldWeight {
        self.fields[field as usize]
    }
}
