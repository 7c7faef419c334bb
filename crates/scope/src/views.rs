//! The table of views: pages of the terminal and tabs of the window.
//!
//! A row is everything that both front ends share: the name of its command, its key, its description and the rows
//! that the selection moves over. Key maps, help, palettes, tab bars, `docs/window.md` and the tests that go over
//! all views read it. Each front end draws a view by an exhaustive match, so that a new row fails to compile until
//! it is drawn.

use serde::{Deserialize, Serialize};

/// What the selection moves over in a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// The journeys and hops of the picture.
    Picture,
    /// A table of journeys.
    Journeys,
    /// A table of flows.
    Flows,
    /// A table of pairs of hops.
    Pairs,
    /// A table of events.
    Events,
    /// The slowest requests.
    Requests,
    /// The legs of paths.
    Legs,
    /// Lines without an action, which only scroll.
    Lines,
}

/// The row of a view.
#[derive(Clone, Copy, Debug)]
pub struct ViewSpec {
    /// The view.
    pub view: View,
    /// One word: its command, and its name in the terminal and in settings.
    pub name: &'static str,
    /// Its number and key in the terminal, from 1; `None` if only the window has it.
    pub page: Option<u8>,
    /// The title of its tab in the window; `None` if the window shows it without a tab, or not at all.
    pub tab: Option<&'static str>,
    /// What the selection moves over.
    pub rows: Rows,
    /// Description for the help and the documents.
    pub words: &'static str,
}

macro_rules! views {
    ($($(#[$attribute:meta])* $view:ident {
        name: $name:literal, page: $page:expr, tab: $tab:expr, rows: $rows:ident, words: $words:literal,
    })*) => {
        /// A view: a page of the terminal, a tab of the window, or both.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum View {
            $($(#[$attribute])* #[doc = $words] $view,)*
        }

        /// All views. The window's tabs have this order.
        pub static VIEWS: &[ViewSpec] = &[$(ViewSpec {
            view: View::$view,
            name: $name,
            page: $page,
            tab: $tab,
            rows: Rows::$rows,
            words: $words,
        },)*];
    };
}

views! {
    #[default]
    Scope {
        name: "scope", page: Some(1), tab: None, rows: Picture,
        words: "lanes and lifelines",
    }
    Hops {
        name: "hops", page: Some(3), tab: Some("heat map"), rows: Pairs,
        words: "the latency of every hop over time",
    }
    Distributions {
        name: "distributions", page: None, tab: Some("distributions"), rows: Picture,
        words: "the histogram of one hop's latency, and its percentiles",
    }
    Flows {
        name: "flows", page: Some(2), tab: Some("flows"), rows: Flows,
        words: "the flows, and where their time went",
    }
    Journeys {
        name: "journeys", page: Some(4), tab: Some("journeys"), rows: Journeys,
        words: "the journeys",
    }
    Events {
        name: "events", page: Some(5), tab: Some("events"), rows: Events,
        words: "the events in order of time",
    }
    Clock {
        name: "clock", page: Some(6), tab: Some("clock"), rows: Lines,
        words: "the clocks and their bounds",
    }
    Losses {
        name: "losses", page: Some(7), tab: Some("losses"), rows: Lines,
        words: "drops, missed events, overhead",
    }
    Requests {
        name: "requests", page: Some(8), tab: Some("requests"), rows: Requests,
        words: "requests and responses by service, and the slowest",
    }
    Topology {
        name: "topology", page: Some(9), tab: Some("topology"), rows: Legs,
        words: "the paths of journeys from node to node, leg by leg",
    }
    Trigger {
        name: "trigger", page: None, tab: Some("trigger"), rows: Picture,
        words: "condition and mode of the trigger, and its saved windows",
    }
    Persistence {
        name: "persistence", page: None, tab: Some("persistence"), rows: Picture,
        words: "lifelines on top of each other, as a density",
    }
    Xy {
        name: "xy", page: None, tab: Some("XY"), rows: Picture,
        words: "one signal against another",
    }
    Compare {
        name: "compare", page: None, tab: Some("compare"), rows: Picture,
        words: "two recordings, hop by hop",
    }
}

impl View {
    /// The row of the view.
    pub fn spec(self) -> &'static ViewSpec {
        // The macro puts variants and rows into one order.
        &VIEWS[self as usize]
    }

    /// All views.
    pub fn all() -> impl ExactSizeIterator<Item = View> {
        VIEWS.iter().map(|spec| spec.view)
    }

    /// The views of the terminal with their keys, in the order of these.
    pub fn pages() -> impl Iterator<Item = (u8, &'static ViewSpec)> {
        let on_page = |page| VIEWS.iter().find(move |spec| spec.page == Some(page));
        (1..).map_while(move |page| Some((page, on_page(page)?)))
    }

    /// The views with a tab in the window and their titles, in order.
    pub fn tabs() -> impl Iterator<Item = (View, &'static str)> {
        VIEWS.iter().filter_map(|spec| Some((spec.view, spec.tab?)))
    }

    /// True if the selection moves over the picture.
    pub fn is_on_picture(self) -> bool {
        self.spec().rows == Rows::Picture
    }

    /// The page at this distance, in a circle. A view without a page counts as the first.
    #[must_use]
    pub fn step(self, by: i8) -> Self {
        let pages: Vec<View> = Self::pages().map(|(_, spec)| spec.view).collect();
        let now = pages.iter().position(|view| *view == self).unwrap_or(0) as isize;
        let at = (now + isize::from(by)).rem_euclid(pages.len() as isize);
        pages.get(at as usize).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::keys::{Chord, KeyMap};
    use crate::command::{CommandKind, command, find};
    use crate::{Action, Options, Scope};
    use magscope_core::node::NodeInfo;
    use std::path::Path;
    use std::{env, fs};

    #[test]
    fn every_row_is_of_its_view_and_has_a_name_of_its_own() {
        for (i, spec) in VIEWS.iter().enumerate() {
            assert_eq!((spec.view as usize, spec.view.spec().name), (i, spec.name));
            assert!(!spec.name.is_empty() && !spec.name.contains(' ') && !spec.words.is_empty(), "{spec:?}");
            assert!(VIEWS[..i].iter().all(|other| other.name != spec.name), "{spec:?}");
            assert!(spec.page.is_some() || spec.tab.is_some(), "{spec:?} is shown nowhere");
        }
    }

    #[test]
    fn pages_are_numbered_without_gaps_and_keys_show_them() {
        let keys = KeyMap::built_in();
        let pages = VIEWS.iter().filter(|spec| spec.page.is_some()).count();
        assert_eq!(View::pages().count(), pages, "numbers from 1, each once");
        assert!(pages <= 9, "a page has a key of one digit");
        for (page, spec) in View::pages() {
            let chord = Chord::parse(&page.to_string()).expect("a digit");
            let bound = keys.get(chord).unwrap_or_else(|| panic!("{page} is not bound"));
            assert_eq!((bound.name, bound.words), (spec.name, spec.words));
            let found = command(spec.name).expect("the command of a page");
            assert_eq!(found.does, CommandKind::Act(Action::Show(spec.view)));
            assert_eq!(find(spec.name).first().map(|found| found.name), Some(spec.name), "in the palette");
        }
    }

    #[test]
    fn pages_are_a_circle() {
        let mut view = View::default();
        for (_, spec) in View::pages() {
            assert_eq!(view, spec.view);
            assert_eq!(view.step(1).step(-1), view);
            view = view.step(1);
        }
        assert_eq!(view, View::default());
    }

    #[test]
    fn the_selection_moves_in_every_view_of_an_empty_scope() {
        for view in View::all() {
            let mut scope = Scope::new(NodeInfo::default(), Options::default());
            for action in [Action::Show(view), Action::SelectRow(1), Action::SelectRow(-1), Action::TakeRow] {
                scope.apply(action);
            }
            scope.apply(Action::Show(view));
            assert_eq!(scope.frame().controls.view, view);
        }
    }

    /// `UPDATE_DOCS=1` writes the table.
    #[test]
    fn the_documents_have_the_table_of_views() {
        const HEAD: &str = "| view | key in the terminal | tab of the window | content |\n|---|---|---|---|\n";
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/window.md");
        let page = fs::read_to_string(&path).expect("docs/window.md");
        let (before, after) = page.split_once(HEAD).expect("docs/window.md has the table of views");
        let (_, after) = after.split_once("\n\n").expect("a paragraph follows");
        let row = |spec: &ViewSpec| {
            let key = spec.page.map_or_else(String::new, |page| format!(" `{page}`"));
            let tab = spec.tab.map_or_else(String::new, |tab| format!(" {tab}"));
            format!("| {} |{key} |{tab} | {} |", spec.name, spec.words)
        };
        let rows: Vec<String> = VIEWS.iter().map(row).collect();
        let updated = format!("{before}{HEAD}{}\n\n{after}", rows.join("\n"));
        if env::var_os("UPDATE_DOCS").is_some() {
            fs::write(&path, updated).expect("docs/window.md can be written");
        } else {
            assert!(
                page == updated,
                "docs/window.md differs from the table of views: UPDATE_DOCS=1 writes its table"
            );
        }
    }
}
