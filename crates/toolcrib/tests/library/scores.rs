//! Scores of one-word queries (requirement A7): a test for each row of the table, and one for queries of several words.

use serde_json::{Map, Value};
use toolcrib::{AgentView, ProvidedTool, Registry};

use crate::crib;

/// The view of an agent that has tools with these names, descriptions and keywords.
async fn view_with_tools(tools: &[(&str, &str, &[&str])]) -> AgentView {
    let registry = Registry::new();
    for (name, description, keywords) in tools {
        let tool = ProvidedTool::new(*name, *description).searchable();
        let done = |_: Map<String, Value>| async { "done" };
        registry.register_tool(tool, done, keywords).unwrap();
    }
    crib(&registry).await.anonymous_view()
}

/// The score of one tool for the query `email`.
async fn score_of(name: &str, description: &str, keywords: &[&str]) -> Option<f64> {
    let view = view_with_tools(&[(name, description, keywords)]).await;
    view.search("email", 10).await.first().map(|hit| hit.score)
}

#[tokio::test]
async fn an_exact_name_scores_1_0() {
    assert_eq!(score_of("email", "Sends it", &[]).await, Some(1.0));
    assert_eq!(score_of("EMail", "Sends it", &[]).await, Some(1.0));
}

#[tokio::test]
async fn a_prefix_of_a_name_scores_0_9() {
    assert_eq!(score_of("email_draft", "Writes it", &[]).await, Some(0.9));
}

#[tokio::test]
async fn an_exact_keyword_scores_0_85() {
    assert_eq!(score_of("send", "Sends it", &["Email"]).await, Some(0.85));
}

#[tokio::test]
async fn a_part_of_a_name_scores_0_8() {
    assert_eq!(score_of("send_email", "Sends it", &[]).await, Some(0.8));
}

#[tokio::test]
async fn a_part_of_a_keyword_scores_0_7() {
    assert_eq!(score_of("send", "Sends it", &["old emails"]).await, Some(0.7));
}

#[tokio::test]
async fn a_word_of_a_description_scores_0_6() {
    assert_eq!(score_of("send", "Sends an email.", &[]).await, Some(0.6));
}

#[tokio::test]
async fn a_part_of_a_description_scores_0_5() {
    assert_eq!(score_of("send", "For emailish things", &[]).await, Some(0.5));
}

#[tokio::test]
async fn a_fuzzy_match_scores_by_similarity() {
    let view = view_with_tools(&[("subscription", "", &[]), ("order", "", &[])]).await;
    let score = async |query: &str| view.search(query, 10).await.first().map(|hit| hit.score);
    // One wrong letter of twelve, and one of five.
    let (close, far) = (score("subscroption").await.unwrap(), score("ordar").await.unwrap());
    assert!(0.0 < far && far < close && close < 0.5, "{far} {close}");
    assert_eq!(score("umbrella").await, None);
}

#[tokio::test]
async fn queries_of_several_words_are_ranked_by_relevance() {
    let view = view_with_tools(&[
        ("list_invoices", "Lists the invoices of a customer", &[]),
        ("send_email", "Sends an email to a customer", &["mail"]),
        ("refund", "Gives the money of an invoice back", &[]),
        ("weather", "Tells the weather of tomorrow", &[]),
    ])
    .await;
    for (query, best) in [
        ("customer invoices", "list_invoices"),
        ("please send a mail to our customer", "send_email"),
        ("give a customer their money back", "refund"),
        ("what will the weather be like tomorrow?", "weather"),
    ] {
        let hits = view.search(query, 10).await;
        assert_eq!(hits[0].tool.name(), best, "{query}");
        assert!(hits.is_sorted_by(|a, b| a.score >= b.score), "{query}");
    }
}
