//! `flotilla doctor`

use flotilla_core::Severity;
use flotilla_ops::admission::fatal;
use flotilla_ops::doctor;

use crate::cluster::Cx;

/// Shows everything that was looked at. The exit status is that of the first thing that is fatal.
pub(crate) fn run(cx: &Cx) -> u8 {
    let mut findings = cx.wait(doctor::run(&cx.context()));
    for finding in &mut findings {
        finding.cure = cx.screen.named(&finding.cure);
    }
    if cx.screen.is_json() {
        cx.screen.json(&findings);
    } else {
        for finding in &findings {
            let verdict = match finding.severity {
                Severity::Good => "ok     ",
                Severity::Warning => "warning",
                Severity::Fatal => "fatal  ",
            };
            cx.screen.line(&format!("{verdict}  {}", finding.text));
            if finding.severity != Severity::Good {
                cx.screen.line(&format!("         {}", finding.cure));
            }
        }
    }
    fatal(findings).first().map_or(0, |finding| finding.exit_status)
}
