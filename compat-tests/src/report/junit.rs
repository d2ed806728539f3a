//! A run as CI tools read it: `testsuites`, a `testsuite` for each family, a `testcase` for each case.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::run::Run;
use super::text::describe_step;
use crate::finding::{Fate, Finding};

/// The document. A case that isn't offered or wasn't played is skipped, one without an answer is an error.
pub fn junit(run: &Run) -> String {
    let mut families: BTreeMap<&str, Vec<&Finding>> = BTreeMap::new();
    for finding in &run.outcome.findings {
        families.entry(&finding.facts.family).or_default().push(finding);
    }
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let all: Vec<&Finding> = run.outcome.findings.iter().collect();
    let cut_off = usize::from(run.outcome.cut_off.is_some());
    let _ = writeln!(
        text,
        "<testsuites name=\"compat-tests\" {}>",
        counts(&all, cut_off, run.took.as_secs_f64())
    );
    for (family, findings) in families {
        let took = findings.iter().map(|finding| finding.took.as_secs_f64()).sum();
        let _ = writeln!(text, "  <testsuite name=\"{}\" {}>", escaped(family), counts(&findings, 0, took));
        for finding in findings {
            case(finding, &mut text);
        }
        text.push_str("  </testsuite>\n");
    }
    if let Some(why) = &run.outcome.cut_off {
        let why = escaped(why);
        let counts = "tests=\"1\" failures=\"0\" errors=\"1\" skipped=\"0\" time=\"0.000\"";
        let _ = writeln!(text, "  <testsuite name=\"the run itself\" {counts}>");
        let _ = writeln!(
            text,
            "    <testcase classname=\"the run itself\" name=\"comes to its end\" time=\"0.000\">"
        );
        let _ = writeln!(text, "      <error message=\"{why}\" type=\"cut off\"/></testcase>");
        text.push_str("  </testsuite>\n");
    }
    text.push_str("</testsuites>\n");
    text
}

/// The attributes that count; `more` errors are of the run itself.
fn counts(findings: &[&Finding], more: usize, seconds: f64) -> String {
    let count = |what: fn(&Fate) -> bool| findings.iter().filter(|finding| what(&finding.fate)).count();
    format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{seconds:.3}\"",
        findings.len() + more,
        count(|fate| matches!(fate, Fate::Differs(_))),
        count(|fate| matches!(fate, Fate::Broke { .. })) + more,
        count(|fate| matches!(fate, Fate::NotOffered(_) | Fate::NotPlayed(_))),
    )
}

fn case(finding: &Finding, text: &mut String) {
    let facts = &finding.facts;
    let seconds = finding.took.as_secs_f64();
    let (class, name) = (escaped(&facts.family), escaped(&facts.id));
    let _ = write!(text, "    <testcase classname=\"{class}\" name=\"{name}\" time=\"{seconds:.3}\"");
    match &finding.fate {
        Fate::Same | Fate::Faulty { .. } | Fate::Better { .. } | Fate::Excused { .. } => {
            text.push_str("/>\n");
        }
        Fate::NotOffered(why) | Fate::NotPlayed(why) => {
            let _ = writeln!(text, "><skipped message=\"{}\"/></testcase>", escaped(why));
        }
        Fate::Broke { step, sent, why, before } => {
            let message = escaped(&facts.says);
            let mut body = String::new();
            before.iter().for_each(|step| describe_step(step, &mut body));
            let body = escaped(&format!("{body}step {step}: {sent}\n{why}"));
            let _ =
                writeln!(text, "><error message=\"{message}\" type=\"no answer\">{body}</error></testcase>");
        }
        Fate::Differs(steps) => {
            let mut body = String::new();
            steps.iter().for_each(|step| describe_step(step, &mut body));
            let (message, body) = (escaped(&facts.says), escaped(&body));
            let _ = writeln!(
                text,
                "><failure message=\"{message}\" type=\"difference\">{body}</failure></testcase>"
            );
        }
    }
}

/// A text within XML or HTML, without the control characters that XML can't have.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(letter),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            letter if letter.is_control() => out.extend(letter.escape_default()),
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_server_says_leaves_its_element() {
        assert_eq!(escaped("<a b=\"c\">&'\u{0}\r\n"), "&lt;a b=&quot;c&quot;&gt;&amp;&#39;\\u{0}\\r\n");
    }
}
