//! What every panel is handed: colours, what the user chose of the window, and where requests go.

use crate::cache::Caches;
use crate::chosen::Chosen;
use crate::colours::Colours;
use crate::over::Over;
use crate::wish::Wish;
use magscope_scope::Action;

/// Drawing only reads the scope; what it asks for is done when the picture is finished.
pub struct Cx<'a> {
    /// The colours.
    pub c: &'static Colours,
    /// What the user chose of the window, and not of the scope.
    pub chosen: &'a mut Chosen,
    /// What is drawn again as it was.
    pub cache: &'a mut Caches,
    /// Requests to the scope.
    pub actions: &'a mut Vec<Action>,
    /// Requests to whoever owns the window.
    pub wishes: &'a mut Vec<Wish>,
    /// What is to lie over the window from now on.
    pub over: Option<Over>,
    /// A recording is read no further than it has been.
    pub idle: &'a mut bool,
    /// Whether the scope, the size or the colours are others than when the last picture was drawn: its number.
    pub revision: u64,
}

impl Cx<'_> {
    /// Asks the scope.
    pub fn act(&mut self, action: Action) {
        self.actions.push(action);
    }
}
