//! Redirects: those of calls are returned, those of documents are followed within their origin.

use super::server::{Server, ok, redirect, reply};
use super::{ExchangeLimits, HttpError, body, client, post};

#[tokio::test]
async fn a_redirect_of_a_call_is_returned() {
    let server = Server::replying([redirect("/elsewhere")]).await;
    let answer =
        client().send(post(server.url("/")), ExchangeLimits::default()).await.ok().unwrap();
    assert_eq!((answer.status, server.requests().len()), (302, 1));
}

#[tokio::test]
async fn a_document_is_followed_within_its_origin() {
    let replies = [redirect("/v1/"), redirect("v2"), redirect("?v=3"), ok("here")];
    let server = Server::replying(replies).await;
    let answer =
        client().get_document(&server.url("/"), ExchangeLimits::default()).await.ok().unwrap();
    assert_eq!((answer.body, answer.url), (b"here".to_vec(), server.url("/v1/v2?v=3")));
}

#[tokio::test]
async fn a_document_is_not_followed_to_another_origin() {
    let elsewhere = Server::replying([ok("")]).await;
    let here = |to: String| async move {
        let server = Server::replying([redirect(&to)]).await;
        let answer = client().get_document(&server.url("/"), ExchangeLimits::default()).await;
        (body(answer).unwrap_err(), server.requests().len())
    };
    let moved = |to| format!("the document has moved to `{to}`: use its new url if you trust it");
    let other = format!("http://127.0.0.1:{}", elsewhere.port);
    assert_eq!(here(format!("{other}/a?key=secret")).await, (moved(other.as_str()), 1));
    let other = "https://example.com";
    assert_eq!(here(format!("{other}:443/a")).await, (moved(other), 1));
    for (to, why) in [
        ("http://169.254.169.254/latest", "`169.254.169.254` is, or leads to, an address"),
        ("file:///etc/passwd", "`file` urls are not fetched"),
        ("http://me:secret@127.0.0.1/", "the url has a user name"),
    ] {
        let (text, asked) = here(to.to_owned()).await;
        assert!(text.starts_with(why) && asked == 1, "{text}");
    }
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn a_redirect_loop_ends_with_an_error() {
    let server = Server::replying([redirect("/")]).await;
    let answer = client().get_document(&server.url("/"), ExchangeLimits::default()).await;
    assert!(matches!(answer, Err(HttpError::TooManyRedirects { limit: 3 })));
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn a_redirect_without_a_valid_location_is_returned() {
    let server = Server::replying([reply("302 Found", "", ""), redirect("http://[")]).await;
    for _ in 0..2 {
        let answer = client().get_document(&server.url("/"), ExchangeLimits::default()).await;
        assert_eq!(answer.ok().unwrap().status, 302);
    }
}
