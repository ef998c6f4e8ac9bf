//! File resources: only files below the operator's folders are readable, whatever symlinks or URIs point to.

use std::os::unix::fs::symlink;

use serde_json::json;

use super::{CustomSource, Folder, Server, as_custom_source};

fn world() -> (Folder, Server) {
    let folder = Folder::empty();
    std::fs::create_dir_all(folder.path("open/deep")).unwrap();
    folder.write("open/a.md", "# A");
    folder.write("open/deep/b.md", "deep");
    folder.write("open/raw", [0xff, 0x00]);
    folder.write("open/large", vec![b'x'; (4 << 20) + 1]);
    folder.write("shut.md", "not for agents");
    symlink(folder.path("shut.md"), folder.path("open/link.md")).unwrap();
    symlink(folder.path("."), folder.path("open/up")).unwrap();
    symlink("a.md", folder.path("open/same.md")).unwrap();
    let open = folder.path("open");
    let server = Server::start_with(&format!("--resource-folder {}", open.display()));
    (folder, server)
}

#[test]
fn files_below_an_allowed_folder_are_read_on_every_request() {
    let (folder, server) = world();
    let at = |name: &str| folder.path("open").join(name);
    let settings = json!({
        "resources": [
            {"uri": "docs://a", "name": "a", "mime_type": "text/markdown", "file": at("a.md")},
            {"uri": "docs://raw", "name": "raw", "file": at("raw")},
            {"uri": "docs://large", "name": "large", "file": at("large")},
            {"uri": "docs://link", "name": "link", "file": at("link.md")},
            {"uri": "docs://up", "name": "up", "file": at("up/shut.md")},
            {"uri": "docs://folder", "name": "folder", "file": at("deep")},
        ],
        "resource_templates": [
            {"uri_template": "pages://{name}", "name": "pages", "mime_type": "text/markdown", "file": at("{{name}}.md")},
            {"uri_template": "below://{folder}/{name}", "name": "below", "file": at("{{folder}}/{{name}}")},
        ],
    });
    let own = CustomSource::on_server(server, settings);
    let a = json!({"uri": "docs://a", "mimeType": "text/markdown", "text": "# A"});
    assert_eq!(own.read("docs://a"), a);
    folder.write("open/a.md", "# B");
    assert_eq!(own.read("docs://a")["text"], "# B");
    assert_eq!(own.read("docs://raw"), json!({"uri": "docs://raw", "blob": "/wA="}));
    assert_eq!(own.read("pages://same")["text"], "# B");
    assert_eq!(own.read("below://deep/b.md")["text"], "deep");
    let (_, _, why) = own.not_read("docs://large");
    assert!(why.contains("more than 4194304 bytes"), "{why}");
    let missing = own.not_read("docs://nothing").1;
    for uri in [
        "docs://link",
        "docs://up",
        "docs://folder",
        "pages://link",
        "pages://nothing",
        "pages://..%2Fshut",
        "pages://%2e%2e%2Fshut",
        "pages://deep%2Fb",
        "pages://%00",
        "pages://a%00",
        "below://../shut.md",
        "below://%2E%2E/shut.md",
        "below://../..",
        "below://up/shut.md",
        "below://./a.md",
    ] {
        let (_, code, why) = own.not_read(uri);
        assert_eq!(code, missing, "{uri}: {why}");
        assert!(!why.contains("open") && !why.contains("not for agents"), "{uri}: {why}");
    }
}

#[test]
fn files_outside_allowed_folders_are_rejected_at_registration() {
    let (folder, server) = world();
    let file = |file: &str| {
        let settings = json!({"resources": [{"uri": "docs://a", "name": "a", "file": file}]});
        as_custom_source(json!({"settings": settings}))
    };
    let open = folder.path("open");
    for wrong in ["/etc/passwd".to_owned(), format!("{}/../shut.md", open.display())] {
        let errors = server.post("/api/sources", &file(&wrong)).errors();
        let expected = "settings.resources[0].file: is not below a folder that this server may read: start it with --resource-folder";
        assert!(errors.contains(expected), "{errors}");
    }
    let nowhere =
        Server::start().post("/api/sources", &file(&open.join("a.md").display().to_string()));
    assert!(nowhere.errors().contains("start it with --resource-folder"));
}
