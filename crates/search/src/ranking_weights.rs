//! The weights of the ranking. `toolcrib eval search --cross-validate` shows whether others would be better.

/// A searchable field of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SearchField {
    /// Name of the tool.
    Name,
    /// Title for people.
    Title,
    /// Keywords, tags and labels.
    Keyword,
    /// Id and name of the source.
    Source,
    Description,
    Parameter,
    ParameterDescription,
    /// Examples of parameter values.
    Example,
}

impl SearchField {
    /// All fields.
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

/// The weight of words in one field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FieldWeight {
    /// Weight of a word that occurs once, in a text of the usual length.
    pub weight: f32,
    /// Length normalisation from 0 (none) to 1 (in a text of twice the usual length, each word counts half).
    pub dilution: f32,
    /// Usual number of words. It is a constant, so that results do not depend on tools that the agent does not have.
    pub usual_length: f32,
}

/// The weights of the ranking.
#[derive(Clone, Debug, PartialEq)]
pub struct RankingWeights {
    /// In the order of [`SearchField::ALL`].
    pub fields: [FieldWeight; 8],
    /// Saturation for repetitions of a word (`k1` of BM25).
    pub saturation: f32,
    /// Bonus for a tool whose whole name is in the query.
    pub naming: f32,
    /// Factor for a word with the same stem, compared with the word itself.
    pub same_stem: f32,
    /// Factor for a synonym.
    pub synonym: f32,
    /// Factor for a word that is one edit away from an unknown query word.
    pub near: f32,
    /// Weight of semantic similarity, compared with words (1).
    pub meaning: f32,
}

impl Default for RankingWeights {
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

impl RankingWeights {
    pub(super) fn of_field(&self, field: SearchField) -> FieldWeight {
        self.fields[field as usize]
    }
}
