//! Where secrets are read from, how sealed ones are stored, and that none is revealed.

use catalog::clock::SystemClock;
use catalog::journal::MemoryJournal;

use super::*;

const KEY: &str = "0123456789abcdef0123456789abcdef";

fn secrets(journal: &Arc<dyn Journal>, key: Option<&str>) -> SecretStore {
    let key = key.map(|key| SealingKey::new(&SecretString::from(key)).unwrap());
    let environment = |name: &str| (name == "TOKEN").then(|| "from the environment".to_owned());
    SecretStore::new(Arc::clone(journal), key, SystemClock, environment)
}

fn journal() -> Arc<dyn Journal> {
    Arc::new(MemoryJournal::new(Arc::new(SystemClock)))
}

async fn value(secrets: &SecretStore, reference: &str) -> Result<String, String> {
    let found = secrets.read_secret(&reference.parse().unwrap()).await;
    found.map(|value| value.expose_secret().to_owned()).map_err(|error| error.to_string())
}

#[tokio::test]
async fn files_of_the_system_are_not_readable_as_secrets() {
    let (journal, folder) = (journal(), tempfile::tempdir().unwrap());
    let (secrets, link) = (secrets(&journal, None), folder.path().join("link"));
    std::os::unix::fs::symlink("/proc/self/environ", &link).unwrap();
    for path in [Path::new("/proc/self/environ"), &link] {
        let why = value(&secrets, &format!("file:{}", path.display())).await.unwrap_err();
        assert!(why.contains("it is no file of a user"), "{why}");
    }
}

#[tokio::test]
async fn a_secret_is_read_from_the_environment_a_file_or_the_sealed_store() {
    let journal = journal();
    let secrets = secrets(&journal, Some(KEY));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, "from a file\n").unwrap();
    secrets.seal_secret("billing", &SecretString::from("from the seal")).await.unwrap();

    assert_eq!(value(&secrets, "env:TOKEN").await.unwrap(), "from the environment");
    assert_eq!(
        value(&secrets, &format!("file:{}", file.path().display())).await.unwrap(),
        "from a file"
    );
    assert_eq!(value(&secrets, "sealed:billing").await.unwrap(), "from the seal");
}

#[tokio::test]
async fn a_sealed_secret_is_unreadable_without_the_key_and_under_another_name() {
    let journal = journal();
    let sealer = secrets(&journal, Some(KEY));
    sealer.seal_secret("one", &SecretString::from("hunter2-hunter2")).await.unwrap();
    let sealed = journal.encrypted_secret("one".to_owned()).await.unwrap().unwrap();
    assert!(!sealed.windows(7).any(|part| part == b"hunter2"));

    let other = secrets(&journal, Some("another key of thirty-two letters"));
    assert_eq!(
        value(&other, "sealed:one").await.unwrap_err(),
        "the secret `one` was sealed with another key"
    );
    assert!(
        value(&secrets(&journal, None), "sealed:one").await.unwrap_err().contains("need a key")
    );

    journal.store_encrypted_secret("two".to_owned(), Some(sealed.clone())).await.unwrap();
    assert!(value(&sealer, "sealed:two").await.is_err());
    let mut bent = sealed;
    *bent.last_mut().unwrap() ^= 1;
    journal.store_encrypted_secret("one".to_owned(), Some(bent)).await.unwrap();
    assert!(value(&secrets(&journal, Some(KEY)), "sealed:one").await.is_err());
}

#[tokio::test]
async fn a_missing_secret_is_an_error_that_says_what_to_do() {
    let journal = journal();
    let secrets = secrets(&journal, Some(KEY));
    assert_eq!(
        value(&secrets, "env:NOT_THERE").await.unwrap_err(),
        "the environment variable `NOT_THERE` is not set"
    );
    assert!(
        value(&secrets, "file:/not/there")
            .await
            .unwrap_err()
            .starts_with("the secret file `/not/there`")
    );
    assert!(value(&secrets, "sealed:x").await.unwrap_err().contains("toolcrib secret set x"));
    assert!(SealingKey::new(&SecretString::from("short")).is_err());
    assert!(secrets.seal_secret("x", &SecretString::from("")).await.is_err());
}

#[tokio::test]
async fn a_secret_file_is_text_of_a_bounded_size() {
    let secrets = secrets(&journal(), None);
    let file = tempfile::NamedTempFile::new().unwrap();
    let reference = format!("file:{}", file.path().display());
    let largest = usize::try_from(LIMIT).unwrap();
    std::fs::write(&file, "x".repeat(largest)).unwrap();
    assert_eq!(value(&secrets, &reference).await.unwrap().len(), largest);
    std::fs::write(&file, "x".repeat(largest + 1)).unwrap();
    assert!(
        value(&secrets, &reference).await.unwrap_err().ends_with("(it has more than 65536 bytes)")
    );
    std::fs::write(&file, [0xff]).unwrap();
    assert!(value(&secrets, &reference).await.unwrap_err().contains("valid UTF-8"));
}

#[tokio::test]
async fn a_removed_secret_is_gone() {
    let journal = journal();
    let secrets = secrets(&journal, Some(KEY));
    secrets.seal_secret("x", &SecretString::from("value")).await.unwrap();
    assert_eq!(secrets.sealed_names().await.unwrap(), ["x"]);
    secrets.remove_secret("x").await.unwrap();
    assert!(secrets.sealed_names().await.unwrap().is_empty());
    assert!(secrets.remove_secret("x").await.is_err());
}

#[tokio::test]
async fn secrets_that_were_read_are_redacted_from_messages() {
    let journal = journal();
    let secrets = secrets(&journal, Some(KEY));
    value(&secrets, "env:TOKEN").await.unwrap();
    let message = "401: `Bearer from the environment` is not valid";
    assert_eq!(secrets.redact(message), "401: `Bearer [env:TOKEN]` is not valid");
}
