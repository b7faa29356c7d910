//! The manual: builds `docs/` as a searchable site, and generates one page from data.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::tools::cargo::{root, run, target};
use crate::tools::error::{Error, Result};
use crate::tools::log::say;
use crate::tools::node::{self, npm};
use crate::tools::playground;

/// The data of the page about the articles, and the page.
const ARTICLES: [&str; 2] = ["docs/articles.json", "docs/articles.md"];

/// Updates the generated page, and builds the site.
pub(crate) fn build() -> Result {
    node::check()?;
    let [data, page] = ARTICLES.map(|path| root().join(path));
    let text = articles(&data)?;
    if fs::read_to_string(&page).unwrap_or_default() != text {
        fs::write(&page, text)?;
        say!("updated {}", page.display());
    }
    let site = root().join("docs");
    // `npm ci` refuses a lock file without the optional packages of other platforms. `npm install` also takes the
    // versions from it.
    run(&mut npm(&site, &["install", "--no-save", "--no-fund", "--no-audit"]))?;
    let built = absolute_target().join("manual");
    for script in ["build", "test"] {
        run(npm(&site, &["run", "--silent", script]).env("LEASEHOLD_SITE", &built))?;
    }
    copy_playground(&built.join("playground"))?;
    say!("the site is in {}", built.display());
    say!("`npx vitepress preview --outDir {}` in docs/ serves it", built.display());
    Ok(())
}

/// The playground is a page of its own, beside the manual's pages.
fn copy_playground(to: &Path) -> Result {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(playground::build()?)? {
        let path = entry?.path();
        fs::copy(&path, to.join(path.file_name().unwrap_or_default()))?;
    }
    Ok(())
}

fn absolute_target() -> PathBuf {
    root().join(target())
}

/// The text of the page about the articles.
pub(crate) fn articles(data: &Path) -> Result<String> {
    let data: Value = serde_json::from_str(&fs::read_to_string(data)?)
        .map_err(|error| Error::new(format!("{}: {error}", data.display())))?;
    let mut page = String::from("<!-- Made from articles.json by `cargo xtask docs`. -->\n\n# Locks in the articles\n");
    for paragraph in list(&data, "about") {
        page.push_str(&format!("\n{}\n", paragraph.as_str().unwrap_or_default()));
    }
    for section in list(&data, "sections") {
        page.push_str(&format!("\n## {}\n", text(section, "title")));
        let about = text(section, "about");
        if !about.is_empty() {
            page.push_str(&format!("\n{about}\n"));
        }
        for row in list(section, "rows") {
            page.push_str(&entry(row));
        }
    }
    Ok(page)
}

/// One lock of the articles: its counterpart here, programs to copy, and the tests that prove it.
fn entry(row: &Value) -> String {
    let mut entry = format!("\n### {}\n\n{}\n\n", text(row, "article"), text(row, "here"));
    let programs: Vec<String> = list(row, "programs").iter().filter_map(Value::as_str).map(program).collect();
    if !programs.is_empty() {
        entry.push_str(&format!("- To copy: {}\n", programs.join(", ")));
    }
    entry.push_str("- Proved by\n");
    for proof in list(row, "proofs") {
        let (file, test) = (text(proof, "file"), text(proof, "test"));
        let name = file.rsplit('/').next().unwrap_or(file);
        entry.push_str(&format!("  - `{test}` in [{name}](../{file})\n"));
    }
    entry
}

fn program(path: &str) -> String {
    let language = match path {
        path if path.starts_with("examples/native/") => "Rust",
        path if path.starts_with("examples/node/") => "Node",
        _ => "component",
    };
    format!("[{language}](../{path})")
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lock_of_the_articles_has_tests_and_programs_that_exist() {
        let [data, _] = ARTICLES.map(|path| root().join(path));
        let data: Value = serde_json::from_str(&fs::read_to_string(data).unwrap()).unwrap();
        let rows = list(&data, "sections").iter().flat_map(|section| list(section, "rows"));
        let mut seen = 0;
        for row in rows {
            let (lock, here) = (text(row, "article"), text(row, "here"));
            assert!(!lock.is_empty() && !here.is_empty(), "{row}");
            for path in list(row, "programs") {
                assert!(root().join(path.as_str().unwrap()).is_file(), "{lock}: {path}");
            }
            assert!(!list(row, "proofs").is_empty(), "{lock}");
            for proof in list(row, "proofs") {
                let (path, name) = (text(proof, "file"), text(proof, "test"));
                let source =
                    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{lock}: {path}: {error}"));
                assert!(!name.is_empty() && source.contains(name), "{lock}: there is no `{name}` in {path}");
            }
            seen += 1;
        }
        assert!(seen >= 29, "{seen} rows");
    }

    #[test]
    fn the_page_about_the_articles_is_made_from_its_data() {
        let [data, page] = ARTICLES.map(|path| root().join(path));
        let page = fs::read_to_string(page).unwrap();
        assert_eq!(page, articles(&data).unwrap(), "run `cargo xtask docs`");
    }
}
