//! The arrows between the modules, read from the code and held against the drawing in `src/README.md`.

use std::{collections::BTreeSet, fs, path::Path};

/// Who uses whom. Everybody may use `base` and `config`; `app` and `cli` may use all.
const ARROWS: [(&str, &[&str]); 15] = [
    ("base", &[]),
    ("config", &[]),
    ("model", &[]),
    ("observe", &[]),
    ("drain", &[]),
    ("cluster", &[]),
    ("distro", &["model", "cluster"]),
    ("cp", &["model"]),
    ("health", &["model", "cp", "distro"]),
    ("push", &["model"]),
    ("gateway", &["model", "cluster", "distro"]),
    ("proxy", &["model"]),
    ("api", &["model", "cluster", "distro", "cp", "health", "push", "gateway", "proxy", "observe"]),
    ("stack", &["api", "cluster", "observe"]),
    ("server", &["api", "observe"]),
];

/// Modules that wire the others.
const WIRING: [&str; 5] = ["app", "membership", "cli", "main", "lib"];

#[test]
fn modules_use_what_their_arrows_say_and_nothing_else() {
    let (mut undrawn, mut drawn) = (Vec::new(), drawn());
    visit(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), "", &mut |module, file, text| {
        if WIRING.contains(&module) || module == "arrows" {
            return;
        }
        let row = ARROWS.iter().find(|(name, _)| *name == module);
        let (_, allowed) = row.unwrap_or_else(|| panic!("{file}: module {module} has no row in ARROWS"));
        for used in uses(text) {
            let free = used == module || used == "base" || (used == "config" && module != "base");
            if !free && !allowed.contains(&used.as_str()) {
                undrawn.push(format!("{file}: {module} -> {used}"));
            }
            drawn.remove(&format!("{module} -> {used}"));
        }
    });
    assert!(undrawn.is_empty(), "arrows that aren't drawn:\n{}", undrawn.join("\n"));
    assert!(drawn.is_empty(), "drawn arrows that nothing uses: {drawn:?}");
}

/// All arrows, one by one.
fn drawn() -> BTreeSet<String> {
    ARROWS.iter().flat_map(|(from, to)| to.iter().map(move |to| format!("{from} -> {to}"))).collect()
}

/// What changes persistent data in memory: for `cp` alone, which makes it durable first.
const DURABLE_ONLY: [&str; 6] = [
    ".put_persistent(",
    ".remove_persistent(",
    "registry.define(",
    "registry.remove(",
    "registry.forget(",
    "draft.persistent",
];

#[test]
fn persistent_data_change_by_way_of_cp_alone() {
    let (mut wrong, mut seen) = (Vec::new(), BTreeSet::new());
    visit(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), "", &mut |module, file, text| {
        let shipped = text.split("#[cfg(test)]").next().unwrap_or_default();
        for call in DURABLE_ONLY.iter().filter(|call| shipped.contains(**call)) {
            match module {
                "cp" | "model" => _ = seen.insert(*call),
                _ if module == "arrows" || file.ends_with("_tests.rs") => {}
                _ => wrong.push(format!("{file}: {call}")),
            }
        }
    });
    assert!(wrong.is_empty(), "not durable:\n{}", wrong.join("\n"));
    assert_eq!(seen.len(), DURABLE_ONLY.len(), "a method has another name now");
}

#[test]
fn the_drawing_shows_the_same_arrows() {
    let lines = include_str!("README.md").lines();
    let rows = lines.filter_map(|line| line.split_once(" -> ")).filter(|(from, _)| word(from) == *from);
    let shown = rows.flat_map(|(from, to)| to.split(", ").map(move |to| format!("{from} -> {to}")));
    assert_eq!(shown.collect::<BTreeSet<_>>(), drawn(), "src/README.md on the left, ARROWS on the right");
}

/// Calls `each` with the top module, the path and the text of every source file.
fn visit(folder: &Path, module: &str, each: &mut impl FnMut(&str, &str, &str)) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_string();
        let module = if module.is_empty() { name.as_str() } else { module };
        if path.is_dir() {
            visit(&path, module, each);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            each(module, path.to_str().unwrap(), &fs::read_to_string(&path).unwrap());
        }
    }
}

/// The top modules that a text names behind `crate::`, in braces or not.
fn uses(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, start) in text.match_indices("crate::") {
        // `nacre_crate::` and the like would be other names.
        if text[..at].ends_with(|letter: char| letter.is_alphanumeric() || letter == '_') {
            continue;
        }
        let rest = &text[at + start.len()..];
        match rest.strip_prefix('{') {
            None => found.insert(word(rest)),
            Some(group) => {
                found.extend(first_level(group));
                true
            }
        };
    }
    found.remove("");
    found
}

fn word(text: &str) -> String {
    text.chars().take_while(|letter| letter.is_ascii_lowercase() || *letter == '_').collect()
}

/// The words that begin an entry of a braced group.
fn first_level(group: &str) -> Vec<String> {
    let (mut depth, mut entry, mut words) = (0, String::new(), Vec::new());
    for letter in group.chars() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => words.push(word(std::mem::take(&mut entry).trim())),
            _ => {}
        }
        if depth == 0 && letter != ',' {
            entry.push(letter);
        }
    }
    words.push(word(entry.trim()));
    words
}

#[test]
fn uses_are_read_in_and_out_of_braces() {
    let text = "use crate::{\n    base::{clock::Clock, java},\n    model,\n};\nlet x = crate::cp::Handle;";
    assert_eq!(uses(text), ["base", "cp", "model"].map(String::from).into());
}
