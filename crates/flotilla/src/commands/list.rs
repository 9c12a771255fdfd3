//! `flotilla list`, `flotilla get clusters`, `flotilla profile list`

mod profile;
mod row;

use flotilla_ops::OpError;
use flotilla_ops::list::{self, Listed, Request, State};

use crate::cluster::Cx;
use crate::screen::table;

use row::Row;

pub(crate) use profile::run as run_profiles;

pub(crate) fn run(cx: &Cx) -> Result<(), OpError> {
    let listed = cx.wait(list::run(&cx.context(), Request::default()))?;
    let rows: Vec<Row> = listed.iter().map(Row::of).collect();
    if cx.screen.is_json() {
        cx.screen.json(&rows);
    } else if !rows.is_empty() {
        let heading = ["NAME", "STATUS", "NODES", "VERSION", "SERVER", "CURRENT"];
        cx.screen.line(&table(&heading, rows.into_iter().map(Row::cells)));
    }
    tell(cx, &listed);
    Ok(())
}

/// As kind lists them: the names alone.
pub(crate) fn run_names(cx: &Cx) -> Result<(), OpError> {
    let request = Request { light: !cx.screen.is_json(), control_planes: false };
    let listed = cx.wait(list::run(&cx.context(), request))?;
    if cx.screen.is_json() {
        cx.screen.json(&listed.iter().map(Row::of).collect::<Vec<_>>());
    } else {
        for Listed { name, .. } in &listed {
            cx.screen.line(name.as_ref());
        }
    }
    tell(cx, &listed);
    Ok(())
}

/// Beside the data: that there is none, and what is wrong with clusters that cannot be read.
fn tell(cx: &Cx, listed: &[Listed]) {
    if listed.is_empty() && !cx.screen.is_json() {
        cx.screen.note("no clusters", "create one with `flotilla start`");
    }
    for Listed { name, state } in listed {
        match state {
            State::Valid(_) => {}
            State::Invalid { is_unfinished: true, .. } => {
                let text = format!("cluster {name} is unfinished: a command is still running or was killed");
                let cure =
                    format!("run `flotilla start -p {name}` to resume, or `flotilla delete -p {name}`");
                cx.screen.warning(&text, &cure);
            }
            State::Invalid { error, hints, .. } => cx.screen.warning(error, &hints.join("; ")),
        }
    }
}
