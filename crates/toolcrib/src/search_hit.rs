//! A tool that matches a search.

use crate::viewed_tool::ViewedTool;

/// A tool that matches a search.
#[derive(Clone)]
pub struct ToolHit {
    /// The matching tool.
    pub tool: ViewedTool,
    /// Relevance from 0 to 1.
    pub score: f64,
}

/// Rounds a score to four decimals, so that 0.9 prints as 0.9.
pub(crate) fn round_score(score: f64) -> f64 {
    (score * 1e4).round() / 1e4
}
