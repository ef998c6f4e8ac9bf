//! A small test model: its tokens and vectors agree with a reference implementation (`tests/reference.py`), and
//! errors in a model folder are reported.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const PIECES: &str = "[PAD] [UNK] [CLS] [SEP] [MASK] the send ##s mail e - . ! weather to ##morrow tom ##orrow 天 気 cafe [ ] \
    sep a ##b ##c";
const WIDTH: usize = 8;
const INNER: usize = 12;
const LAYERS: usize = 2;
const POSITIONS: usize = 16;

/// Writes tensors with pseudo-random numbers that the reference script can reproduce.
struct Written {
    state: u64,
    header: serde_json::Map<String, Value>,
    bytes: Vec<u8>,
}

impl Written {
    fn tensor(&mut self, name: &str, shape: &[usize], middle: f64) {
        let begin = self.bytes.len();
        for _ in 0..shape.iter().product() {
            self.state = (self.state * 1_103_515_245 + 12_345) % (1 << 31);
            let number = (middle + self.state as f64 / f64::from(1_u32 << 31) - 0.5) as f32;
            self.bytes.extend(number.to_le_bytes());
        }
        let offsets = [begin, self.bytes.len()];
        let entry = json!({"dtype": "F32", "shape": shape, "data_offsets": offsets});
        self.header.insert(name.to_owned(), entry);
    }

    fn linear(&mut self, name: &str, to: usize, from: usize) {
        self.tensor(&format!("{name}.weight"), &[to, from], 0.0);
        self.tensor(&format!("{name}.bias"), &[to], 0.0);
    }

    fn norm(&mut self, name: &str) {
        self.tensor(&format!("{name}.weight"), &[WIDTH], 1.0);
        self.tensor(&format!("{name}.bias"), &[WIDTH], 0.0);
    }

    fn file(&self) -> Vec<u8> {
        let header = Value::from(self.header.clone()).to_string();
        let length = (header.len() as u64).to_le_bytes();
        [&length, header.as_bytes(), &self.bytes].concat()
    }
}

fn tensors() -> Written {
    let mut all = Written { state: 1, header: serde_json::Map::new(), bytes: Vec::new() };
    all.header.insert("__metadata__".to_owned(), json!({"format": "pt"}));
    let tables = [("word", PIECES.split(' ').count()), ("position", POSITIONS), ("token_type", 2)];
    for (name, rows) in tables {
        all.tensor(&format!("embeddings.{name}_embeddings.weight"), &[rows, WIDTH], 0.0);
    }
    all.norm("embeddings.LayerNorm");
    for layer in 0..LAYERS {
        let name = |part: &str| format!("encoder.layer.{layer}.{part}");
        for part in ["self.query", "self.key", "self.value", "output.dense"] {
            all.linear(&name(&format!("attention.{part}")), WIDTH, WIDTH);
        }
        all.norm(&name("attention.output.LayerNorm"));
        all.linear(&name("intermediate.dense"), INNER, WIDTH);
        all.linear(&name("output.dense"), WIDTH, INNER);
        all.norm(&name("output.LayerNorm"));
    }
    all
}

fn config() -> Value {
    json!({
        "model_type": "bert", "vocab_size": PIECES.split(' ').count(), "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS, "num_attention_heads": 2, "intermediate_size": INNER,
        "max_position_embeddings": POSITIONS, "hidden_act": "gelu",
    })
}

fn tokenizer() -> Value {
    let vocab: serde_json::Map<String, Value> = PIECES
        .split(' ')
        .zip(0..)
        .map(|(piece, number)| (piece.to_owned(), number.into()))
        .collect();
    json!({
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "vocab": vocab},
    })
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: Vec<u8>| fs::write(folder.path().join(name), bytes).unwrap();
    write("config.json", config().to_string().into_bytes());
    write("vocab.txt", PIECES.replace(' ', "\n").into_bytes());
    write("model.safetensors", tensors().file());
    folder
}

fn write(folder: &Path, name: &str, value: &Value) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, value.to_string()).unwrap();
}

/// Output of `reference.py`: texts, their tokens, and their vectors with mean pooling and with first-token pooling.
type Expected = (String, Vec<u32>, [f32; WIDTH], [f32; WIDTH]);

fn reference() -> [Expected; 6] {
    let text = |text: &str| text.to_owned();
    [
        (
            text("Send the e-mail!"),
            vec![2, 6, 5, 9, 10, 8, 12, 3],
            [0.41066, 0.353, -0.13632, -0.54462, -0.08305, -0.43856, 0.42078, 0.12356],
            [0.37597, 0.33601, 0.05383, -0.57969, 0.34798, -0.50923, 0.15002, 0.06236],
        ),
        (
            text("Tomorrow's WEATHER"),
            vec![2, 16, 17, 1, 1, 13, 3],
            [0.39118, 0.34812, -0.22462, -0.51251, -0.06571, -0.456, 0.42171, 0.15024],
            [0.40094, 0.31862, 0.01616, -0.53932, 0.34522, -0.55557, 0.09895, 0.09478],
        ),
        (
            text("Café\tcafé\u{301} 天気"),
            vec![2, 20, 20, 18, 19, 3],
            [0.42778, 0.28306, -0.02288, -0.58561, 0.03424, -0.46111, 0.41243, 0.09751],
            [0.42227, 0.2955, 0.11883, -0.56277, 0.3166, -0.53423, 0.11603, 0.06666],
        ),
        (
            text("xyz [SEP] abc."),
            vec![2, 1, 21, 23, 22, 24, 25, 26, 11, 3],
            [0.36609, 0.35047, -0.03141, -0.556, 0.18264, -0.51782, 0.35893, 0.05188],
            [0.37597, 0.30651, 0.07135, -0.54881, 0.444, -0.50557, 0.0665, 0.0355],
        ),
        (
            String::new(),
            vec![2, 3],
            [0.36107, 0.38648, -0.17289, -0.50595, -0.13661, -0.44314, 0.4517, 0.12377],
            [0.35953, 0.2994, 0.07113, -0.53567, 0.41014, -0.55457, 0.08833, 0.07431],
        ),
        (
            "sends ".repeat(20),
            vec![2, 6, 7, 6, 7, 6, 7, 6, 7, 6, 7, 6, 7, 6, 7, 3],
            [0.46189, 0.27594, -0.04707, -0.57827, -0.04126, -0.43428, 0.41346, 0.11246],
            [0.39988, 0.23562, 0.15141, -0.54599, 0.36008, -0.55568, 0.14444, 0.06517],
        ),
    ]
}

fn assert_near(one: &[f32], two: &[f32], what: &str) {
    let are_near =
        one.len() == two.len() && one.iter().zip(two).all(|(one, two)| (one - two).abs() < 1e-4);
    assert!(are_near, "{what:?}: {one:?} instead of {two:?}");
}

#[test]
fn tokens_and_vectors_agree_with_the_reference() {
    let list = folder();
    let whole = folder();
    fs::remove_file(whole.path().join("vocab.txt")).unwrap();
    write(whole.path(), "tokenizer.json", &tokenizer());
    for folder in [&list, &whole] {
        let model = SentenceModel::open(folder.path()).unwrap();
        for (text, tokens, mean, _) in reference() {
            assert_eq!(model.tokenizer.tokenize_text(&text), tokens, "{text:?}");
            assert_near(&model.embed_text(&text), &mean, &text);
        }
    }
    write(list.path(), "1_Pooling/config.json", &json!({"pooling_mode_cls_token": true}));
    let model = SentenceModel::open(list.path()).unwrap();
    for (text, _, _, first) in reference() {
        assert_near(&model.embed_text(&text), &first, &text);
    }
}

#[test]
fn prefixed_tensor_names_give_the_same_model() {
    let folder = folder();
    let mut all = tensors();
    all.header.remove("__metadata__");
    let header = std::mem::take(&mut all.header);
    all.header = header.into_iter().map(|(name, it)| (format!("bert.{name}"), it)).collect();
    fs::write(folder.path().join("model.safetensors"), all.file()).unwrap();
    let (text, _, mean, _) = &reference()[0];
    assert_near(&SentenceModel::open(folder.path()).unwrap().embed_text(text), mean, text);
}

#[test]
fn a_changed_model_has_a_different_digest() {
    let folder = folder();
    let digest = || SentenceModel::open(folder.path()).unwrap().digest();
    let before = digest();
    assert_eq!(digest(), before);
    write(folder.path(), "sentence_bert_config.json", &json!({"max_seq_length": 7}));
    assert_ne!(digest(), before);
    let tokens =
        SentenceModel::open(folder.path()).unwrap().tokenizer.tokenize_text(&"the ".repeat(99));
    assert_eq!(tokens, [2, 5, 5, 5, 5, 5, 3]);
}

#[test]
fn errors_in_a_model_folder_are_reported() {
    let says = |name: &str, bytes: &[u8], expected: &str| {
        let folder = folder();
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
        let error = SentenceModel::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains(expected), "{error}");
    };
    let with = |member: &str, value: Value| {
        let mut config = config();
        config[member] = value;
        config.to_string().into_bytes()
    };
    says("config.json", b"{", "not as it should be");
    says("config.json", &vec![b' '; (1 << 20) + 1], "more than 1048576 bytes");
    says("config.json", &with("model_type", json!("t5")), "only `bert`");
    says("config.json", &with("hidden_act", json!("relu")), "only `gelu`");
    says("config.json", &with("num_attention_heads", json!(3)), "not a multiple");
    says("config.json", &with("hidden_size", json!(1_u64 << 40)), "from 1 to 4096");
    says("config.json", &with("num_hidden_layers", json!(0)), "from 1 to 64");
    says("modules.json", br#"[{"type": "sentence_transformers.models.Dense"}]"#, "Dense");
    says("1_Pooling/config.json", br#"{"pooling_mode_max_tokens": true}"#, "neither the mean");
    says("vocab.txt", b"[CLS]\n[SEP]", "no piece `[UNK]`");
    says("vocab.txt", PIECES.replace(' ', "\n").repeat(2).as_bytes(), "more pieces");
    says("vocab.txt", b"\xff", "UTF-8");
    says(
        "tokenizer.json",
        tokenizer().to_string().replace("WordPiece", "BPE").as_bytes(),
        "another way",
    );
    says("model.safetensors", b"short", "ends before its header");
    says("model.safetensors", &[255; 9], "ends before its header");
    says("model.safetensors", b"\x02\0\0\0\0\0\0\0{}", "has no `embeddings.");
    let with = |member: &str, value: Value| {
        let mut all = tensors();
        all.header["encoder.layer.1.output.dense.weight"][member] = value;
        all.file()
    };
    says("model.safetensors", &with("shape", json!([INNER, WIDTH])), "instead of [8, 12]");
    says("model.safetensors", &with("dtype", json!("I64")), "`I64`");
    says("model.safetensors", &with("dtype", json!("F16")), "not 96 finite numbers");
    says("model.safetensors", &with("data_offsets", json!([0, 4])), "not 96 finite numbers");
    says("model.safetensors", &with("data_offsets", json!([9, 3])), "is not in it");
    says(
        "model.safetensors",
        &with("data_offsets", json!([0, 1_u64 << 60])),
        "more bytes together",
    );
    let large = [&(2_u64 << 20).to_le_bytes()[..], &vec![b' '; 2 << 20]].concat();
    says("model.safetensors", &large, "its header is larger");
    let (odd, mut config) = (folder(), config());
    config["layer_norm_eps"] = json!(-1e9);
    write(odd.path(), "config.json", &config);
    let error = SentenceModel::open(odd.path()).unwrap_err().to_string();
    assert!(error.contains("a text has no direction"), "{error}");
    let gone = folder();
    fs::remove_file(gone.path().join("model.safetensors")).unwrap();
    let error = SentenceModel::open(gone.path()).unwrap_err().to_string();
    assert!(error.contains("model.safetensors` of a sentence model cannot be read"), "{error}");
}

proptest! {
    #[test]
    fn every_text_has_a_unit_vector(text in any::<String>()) {
        let folder = folder();
        let model = SentenceModel::open(folder.path()).unwrap();
        let tokens = model.tokenizer.tokenize_text(&text);
        prop_assert!((2..=POSITIONS).contains(&tokens.len()));
        let vector = model.embed_text(&text);
        let length: f32 = vector.iter().map(|number| number * number).sum();
        prop_assert!((length - 1.0).abs() < 1e-4, "{length}");
    }
}
