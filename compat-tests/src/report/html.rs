//! A run as one file without anything outside it: scores for whoever decides, the bytes for whoever repairs.

use std::fmt::Write as _;

use super::bytes::Parting;
use super::junit::escaped;
use super::run::Run;
use crate::facts::Facts;
use crate::finding::{Fate, Finding};
use crate::replay::StepDifference;
use crate::score::{Score, Tally};

/// Longer texts are cut.
const MOST_BYTES: usize = 20_000;

const STYLE: &str = "
body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}
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
    page.push_str("<h2>By client</h2>\n<p>Only cases count that the client was seen to depend on, by their weight.</p>\n");
    table(score.clients.iter().map(|(client, tally)| (client.title(), tally)), &mut page);
    page.push_str("<h2>By family of endpoints</h2>\n");
    table(score.families.iter().map(|(family, tally)| (*family, tally)), &mut page);
    not_played(run, &mut page);
    page.push_str("<h2>Failures</h2>\n");
    if score.all.failed.is_empty() {
        page.push_str("<p>None.</p>\n");
    }
    for finding in &score.all.failed {
        failure(finding, &mut page);
    }
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
        let failed: Vec<String> = tally
            .failed
            .iter()
            .map(|f| format!("<a href=\"#{}\">{}</a>", escaped(&f.facts.id), escaped(&f.facts.says)))
            .collect();
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td class=n>{shown}</td><td><div class=\"bar{low}\"><i style=\"width:{}%\"></i></div></td>\
             <td class=n>{}{not_offered}</td><td>{}</td></tr>",
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

fn failure(finding: &Finding, page: &mut String) {
    let Facts { id, says, source, clients, weight, .. } = &finding.facts;
    let clients: Vec<&str> = clients.iter().map(|client| client.title()).collect();
    let clients = if clients.is_empty() { "no client that was tried".to_owned() } else { clients.join(", ") };
    let id = escaped(id);
    let _ = writeln!(
        page,
        "<details id=\"{id}\"><summary><b>{}</b> <code>{id}</code></summary>\n\
         <p class=w>Weight {weight}; matters to {}. Source: {}. Alone: <code>--only '^{id}$'</code></p>",
        escaped(says),
        escaped(&clients),
        escaped(source)
    );
    match &finding.fate {
        Fate::Differs(steps) => steps.iter().for_each(|step| differing(step, page)),
        Fate::Broke { step, sent, why } => {
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
        let _ = writeln!(page, "<p><code>{}</code></p>", escaped(&difference.place));
        let parting = Parting::of(&difference.want, &difference.got);
        let at = parting.map_or(0, |parting| parting.at);
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
