//! A run as one file without anything outside it: scores for whoever decides, the bytes for whoever repairs.

use std::fmt::Write as _;

use super::bytes::Parting;
use super::junit::escaped;
use super::run::Run;
use super::text::whom;
use crate::facts::{Client, Facts};
use crate::finding::{Fate, Finding};
use crate::notice::noticed_by;
use crate::replay::StepDifference;
use crate::score::{Score, Tally};

/// Longer texts are cut.
const MOST_BYTES: usize = 20_000;

const STYLE: &str = "
body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}h3{font-size:1rem;margin:1.5rem 0 0}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #ddd;vertical-align:top}
td.n{text-align:right;white-space:nowrap}.bar{background:#eee;width:9rem;height:.7rem;border-radius:.35rem;overflow:hidden}
.bar i{display:block;height:100%;background:#2a7}.low i{background:#c43}
details{border:1px solid #ddd;border-radius:.4rem;margin:.5rem 0;padding:.4rem .8rem}summary{cursor:pointer}
pre{background:#f6f6f6;padding:.5rem;overflow-x:auto;white-space:pre-wrap;overflow-wrap:anywhere;margin:.3rem 0}
code{font-size:.9em}.w{color:#666}mark{background:#fd9}
";

/// The page.
pub fn html(run: &Run) -> String {
    let score = Score::of(&run.outcome.findings);
    let mut page = String::from("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n");
    page.push_str("<meta name=\"viewport\" content=\"width=device-width\">\n");
    let url = escaped(&run.url);
    let _ =
        writeln!(page, "<title>{url}: compatible with Nacos 1.x?</title><style>{STYLE}</style></head><body>");
    let percent = score.all.percent().map_or_else(|| "nothing was played".to_owned(), |p| format!("{p} %"));
    let _ = writeln!(page, "<h1>Is {url} compatible with Nacos 1.x? {percent}</h1>");
    let _ = writeln!(
        page,
        "<p>{} Level {}, {} s, order by seed {}, compat-tests {}.</p>",
        escaped(&run.summary()) + ".",
        escaped(&run.level),
        run.took.as_secs(),
        run.seed,
        env!("CARGO_PKG_VERSION")
    );
    if let Some(why) = &run.outcome.cut_off {
        let _ = writeln!(page, "<p><b>The run ended before its end: {}.</b></p>", escaped(why));
    }
    page.push_str("<h2>By client</h2>\n<p>Only cases count that the client was seen to depend on, by their weight, and of differences those that it notices.</p>\n");
    table(score.clients.iter().map(|(client, tally)| (client.title(), tally)), &mut page);
    page.push_str("<h2>By family of endpoints</h2>\n");
    table(score.families.iter().map(|(family, tally)| (*family, tally)), &mut page);
    not_played(run, &mut page);
    page.push_str("<h2>Failures</h2>\n");
    if score.all.failed.is_empty() {
        page.push_str("<p>None.</p>\n");
    }
    for (family, tally) in score.families.iter().filter(|(_, tally)| !tally.failed.is_empty()) {
        family_heading(family, tally, &mut page);
        tally.failed.iter().for_each(|finding| failure(finding, &mut page));
    }
    faults(run, &mut page);
    cases(run, &mut page);
    page.push_str("</body></html>\n");
    page
}

fn table<'a>(rows: impl Iterator<Item = (&'a str, &'a Tally<'a>)>, page: &mut String) {
    page.push_str("<table><tr><th></th><th></th><th></th><th>cases</th><th>not so</th></tr>\n");
    for (name, tally) in rows {
        let percent = tally.percent();
        let low = if tally.failed.is_empty() { "" } else { " low" };
        let shown = percent.map_or_else(|| "–".to_owned(), |percent| format!("{percent} %"));
        let not_offered = match tally.not_offered {
            0 => String::new(),
            count => format!(" <span class=w>(+ {count} not offered)</span>"),
        };
        let not_told = match tally.untold {
            0 => String::new(),
            count => format!(" <span class=w>(+ {count} not told)</span>"),
        };
        let apart = |count: usize, what: &str| match count {
            0 => String::new(),
            _ => format!(" <span class=w>({count} {what})</span>"),
        };
        let apart = apart(tally.better, "right where recorded wrong") + &apart(tally.faulty, "with a fault");
        let failed: Vec<String> = tally
            .failed
            .iter()
            .map(|f| format!("<a href=\"#{}\">{}</a>", escaped(&f.facts.id), escaped(&f.facts.says)))
            .collect();
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td class=n>{shown}</td><td><div class=\"bar{low}\"><i style=\"width:{}%\"></i></div></td>\
             <td class=n>{}{apart}{not_offered}{not_told}</td><td>{}</td></tr>",
            escaped(name),
            percent.unwrap_or(0),
            tally.cases,
            failed.join("<br>")
        );
    }
    page.push_str("</table>\n");
}

fn not_played(run: &Run, page: &mut String) {
    let reasons = run.not_played();
    if reasons.is_empty() && run.outcome.left_behind.is_empty() {
        return;
    }
    page.push_str("<h2>Not in the score</h2>\n<ul>\n");
    for ((not_offered, why), cases) in reasons {
        let what = if not_offered { "not offered" } else { "not played" };
        let _ = writeln!(page, "<li>{what}: {cases} cases: {}</li>", escaped(why));
    }
    for left in &run.outcome.left_behind {
        let _ = writeln!(page, "<li>left behind: {}</li>", escaped(left));
    }
    page.push_str("</ul>\n");
}

/// What goes as it was recorded, but had better not.
fn faults(run: &Run, page: &mut String) {
    if run.faulty().next().is_none() {
        return;
    }
    page.push_str("<h2>Faults of the recording that this server has, too</h2>\n");
    page.push_str("<p>It is as compatible as the real server; for a client that breaks on one, the case is failed.</p>\n");
    for (finding, why) in run.faulty() {
        let id = escaped(&finding.facts.id);
        let whom = whom(finding).unwrap_or_else(|| "no client is known to break on it".to_owned());
        let _ = writeln!(
            page,
            "<p id=\"{id}\"><code>{id}</code> not so: {} <span class=w>{}. {}</span></p>",
            escaped(&finding.facts.says),
            escaped(&whom),
            escaped(why)
        );
    }
}

/// How many failed and whom that breaks, before the failures themselves.
fn family_heading(family: &str, tally: &Tally<'_>, page: &mut String) {
    let broken = |client: &&Client| tally.failed.iter().any(|finding| noticed_by(finding).contains(client));
    let clients: Vec<&str> = Client::ALL.iter().filter(broken).map(|client| client.title()).collect();
    let whom = if clients.is_empty() { "no client that was tried".to_owned() } else { clients.join(", ") };
    let _ = writeln!(
        page,
        "<h3>{}</h3>\n<p class=w>{} of {} cases, matter to {}.</p>",
        escaped(family),
        tally.failed.len(),
        tally.cases,
        escaped(&whom)
    );
}

fn failure(finding: &Finding, page: &mut String) {
    let Facts { id, says, source, weight, .. } = &finding.facts;
    let whom = whom(finding).unwrap_or_else(|| "matters to no client that was tried".to_owned());
    let id = escaped(id);
    let _ = writeln!(
        page,
        "<details><summary><b>{}</b> <code>{id}</code></summary>\n\
         <p class=w id=\"{id}\">Weight {weight}; {}. Source: {}. Alone: <code>--only '^{id}$'</code></p>",
        escaped(says),
        escaped(&whom),
        escaped(source)
    );
    match &finding.fate {
        Fate::Differs(steps) => steps.iter().for_each(|step| differing(step, page)),
        Fate::Broke { step, sent, why, before } => {
            before.iter().for_each(|step| differing(step, page));
            let _ = writeln!(
                page,
                "<p>No answer at step {step}:</p><pre>{}\n{}</pre>",
                escaped(sent),
                escaped(why)
            );
        }
        _ => {}
    }
    page.push_str("</details>\n");
}

fn differing(step: &StepDifference, page: &mut String) {
    let _ = writeln!(page, "<p>Step {}:</p><pre>{}</pre>", step.step, escaped(&step.sent));
    for difference in &step.differences {
        let parting = Parting::of(&difference.want, &difference.got);
        let at = parting.map_or(0, |parting| parting.at);
        let place = escaped(&difference.place);
        let _ = writeln!(page, "<p><code>{place}</code> <span class=w>from byte {at} on</span></p>");
        let _ = writeln!(
            page,
            "<pre>want {}\ngot  {}</pre>",
            marked(&difference.want, at),
            marked(&difference.got, at)
        );
    }
    if !(step.want.is_empty() && step.got.is_empty()) {
        let _ = writeln!(
            page,
            "<details><summary>whole texts</summary><pre>{}</pre><pre>{}</pre></details>",
            escaped(cut(&step.want)),
            escaped(cut(&step.got))
        );
    }
}

/// A text whose part from byte `at` on is marked.
fn marked(text: &str, at: usize) -> String {
    let text = cut(text);
    let at = (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}<mark>{}</mark>", escaped(&text[..at]), escaped(&text[at..]))
}

fn cut(text: &str) -> &str {
    let end = (0..=MOST_BYTES.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    &text[..end]
}

fn cases(run: &Run, page: &mut String) {
    page.push_str(
        "<h2>All cases</h2>\n<details><summary>their sentences, results and sources</summary><table>\n",
    );
    for Finding { facts, fate, .. } in &run.outcome.findings {
        let result = match fate {
            Fate::Same => "as expected",
            Fate::Faulty { .. } => "as recorded, with a fault",
            Fate::Better { .. } => "right where the recording has a fault",
            Fate::Excused { .. } => "different, not counted",
            Fate::Differs(_) | Fate::Broke { .. } => "<b>different</b>",
            Fate::NotOffered(_) => "not offered",
            Fate::NotPlayed(_) => "not played",
        };
        let _ = writeln!(
            page,
            "<tr><td><code>{}</code></td><td>{}<br><span class=w>{}</span></td><td>{result}</td></tr>",
            escaped(&facts.id),
            escaped(&facts.says),
            escaped(&facts.source)
        );
    }
    page.push_str("</table></details>\n");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::compare::Difference;
    use crate::facts::Level;
    use crate::session::Outcome;

    fn finding(family: &str, id: &str, clients: &[Client], fate: Fate) -> Finding {
        let facts = Facts {
            id: id.to_owned(),
            says: format!("It does {id}."),
            source: "a source".to_owned(),
            family: family.to_owned(),
            level: Level::Core,
            needs: Vec::new(),
            clients: clients.to_vec(),
            fault_breaks: Vec::new(),
            weight: 2,
        };
        Finding { facts, took: Duration::ZERO, fate }
    }

    fn differing(want: &str, got: &str) -> Fate {
        let difference = Difference::new("body", &want, &got);
        Fate::Differs(vec![StepDifference {
            step: 1,
            sent: "GET /nacos/v1/ns/instance/list?<x>".to_owned(),
            differences: vec![difference],
            want: want.to_owned(),
            got: got.to_owned(),
            refused: false,
        }])
    }

    #[test]
    fn the_page_has_the_summary_first_and_failures_by_family_with_their_bytes_and_clients() {
        let findings = vec![
            finding("push", "push/a", &[Client::Go], differing("{\"w\":1.0}", "{\"w\":1}")),
            finding("beat", "beat/a", &[Client::Node], differing("<a>", "<b>")),
            finding("push", "push/b", &[Client::Java14], differing("x", "y")),
            finding("push", "push/c", &[], Fate::Same),
            finding("auth", "auth/a", &[Client::Node], Fate::NotOffered("a login")),
        ];
        let outcome = Outcome { findings, ..Outcome::default() };
        let took = Duration::from_secs(1);
        let run = Run { url: "http://a:1".to_owned(), level: "core".to_owned(), seed: 7, took, outcome };
        let page = html(&run);
        let places = [
            "compatible with Nacos 1.x? 25 %",
            "4 cases: 1 as expected, 3 different.",
            "<h2>By client",
            "<h2>By family",
            "not offered: 1 cases: a login",
            "<h2>Failures",
            "<h3>beat</h3>\n<p class=w>1 of 1 cases, matter to Node 2.6.x.",
            "<code>beat/a</code>",
            "instance/list?&lt;x&gt;",
            "want &lt;<mark>a&gt;</mark>",
            "<h3>push</h3>\n<p class=w>2 of 3 cases, matter to Java 1.4.x, Go 1.1.x.",
            "<code>push/a</code>",
            "from byte 6 on",
            "{&quot;w&quot;:1<mark>}</mark>",
            "<code>push/b</code>",
            "<h2>All cases",
        ];
        let mut rest = &*page;
        for place in places {
            let at = rest.find(place).unwrap_or_else(|| panic!("{place} isn't where it should be: {rest}"));
            rest = &rest[at..];
        }
        for outside in ["<link", "<script", "<img", "src=", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.split("href=\"").skip(1).all(|link| link.starts_with('#')), "{page}");
        assert_eq!(page.matches("id=\"push/a\"").count(), 1);
    }
}
