//! Context of every panel: colours, settings, and request queues.

use crate::cache::Caches;
use crate::chosen::Chosen;
use crate::colours::Colours;
use crate::host_request::HostRequest;
use crate::menu::Menu;
use crate::overlays::Overlay;
use magscope_scope::Action;

/// Panels only read the scope; requests are executed after the frame.
pub struct UiContext<'a> {
    /// The colours.
    pub c: &'static Colours,
    /// Settings of the window, as opposed to the scope.
    pub chosen: &'a mut Chosen,
    /// Caches between frames.
    pub cache: &'a mut Caches,
    /// Requests to the scope.
    pub actions: &'a mut Vec<Action>,
    /// Requests to the owner of the window.
    pub requests: &'a mut Vec<HostRequest>,
    /// New overlay, if any.
    pub over: Option<Overlay>,
    /// New menu of a row, if any.
    pub menu: Option<Menu>,
    /// Pages by which the table below is to be scrolled, downwards if positive.
    pub scroll_pages: f32,
    /// True to stop reading the rest of a recording.
    pub idle: &'a mut bool,
    /// Number that changes with the scope, the size or the colours.
    pub revision: u64,
}

impl UiContext<'_> {
    /// Queues a request to the scope.
    pub fn act(&mut self, action: Action) {
        self.actions.push(action);
    }
}
