//! Cache of textures and meshes that are expensive to build.

use egui::{ColorImage, Context, Id, Mesh, TextureHandle, TextureId, TextureOptions};
use magscope_scope::look::{
    Density, FlowTable, HeatMap, Hits, Loadline, Measurements, Minimap, Point, SumMap, TopologyPanel,
};
use std::collections::HashMap;
use std::sync::Arc;

/// Hash of a picture's inputs; a new key rebuilds the picture.
pub type Key = u64;

/// Textures and meshes by name.
#[derive(Default)]
pub struct Caches {
    textures: HashMap<&'static str, (Key, TextureHandle)>,
    meshes: HashMap<&'static str, (Key, Arc<Mesh>)>,
    /// The lanes from afar.
    pub densities: Cached<Density>,
    /// Single events.
    pub points: Cached<Vec<Point>>,
    /// Hits of custom probes.
    pub hits: Cached<Hits>,
    /// The overview of the whole time range.
    pub minimaps: Cached<Minimap>,
    /// Latency by hop pair and time.
    pub heat: Cached<HeatMap>,
    /// The kernel's sums in the heat map.
    pub sums: Cached<SumMap>,
    /// Both without the time dimension.
    pub classes: Cached<(HeatMap, SumMap)>,
    /// Signals.
    pub loadlines: Cached<Vec<Loadline>>,
    /// Measurements.
    pub measurements: Cached<Measurements>,
    /// The flows.
    pub flows: Cached<FlowTable>,
    /// The topology.
    pub topology: Cached<TopologyPanel>,
}

/// A cached value with its key.
pub struct Cached<T>(Option<(Key, Arc<T>)>);

impl<T> Default for Cached<T> {
    fn default() -> Self {
        Cached(None)
    }
}

impl<T> Cached<T> {
    /// The value, rebuilt for a new key.
    pub fn get(&mut self, key: Key, make: impl FnOnce() -> T) -> Arc<T> {
        match &self.0 {
            Some((cached_key, value)) if *cached_key == key => value.clone(),
            _ => {
                let made = Arc::new(make());
                self.0 = Some((key, made.clone()));
                made
            }
        }
    }
}

impl Caches {
    /// The texture of this name, rebuilt for a new key.
    pub fn texture(
        &mut self,
        ctx: &Context,
        name: &'static str,
        key: Key,
        make: impl FnOnce() -> ColorImage,
    ) -> TextureHandle {
        match self.textures.get_mut(name) {
            Some((cached_key, handle)) if *cached_key == key => handle.clone(),
            Some((cached_key, handle)) => {
                *cached_key = key;
                let image = Arc::new(make());
                handle.set(image.clone(), TextureOptions::NEAREST);
                ctx.data_mut(|data| data.insert_temp(pixels_of(handle.id()), image));
                handle.clone()
            }
            None => {
                let image = Arc::new(make());
                let handle = ctx.load_texture(name, image.clone(), TextureOptions::NEAREST);
                ctx.data_mut(|data| data.insert_temp(pixels_of(handle.id()), image));
                self.textures.insert(name, (key, handle.clone()));
                handle
            }
        }
    }

    /// The mesh of this name, rebuilt for a new key.
    pub fn mesh(&mut self, name: &'static str, key: Key, make: impl FnOnce() -> Mesh) -> Arc<Mesh> {
        match self.meshes.get(name) {
            Some((cached_key, mesh)) if *cached_key == key => mesh.clone(),
            _ => {
                let mesh = Arc::new(make());
                self.meshes.insert(name, (key, mesh.clone()));
                mesh
            }
        }
    }
}

/// The pixels of a cached texture, for image export.
pub fn image(ctx: &Context, id: TextureId) -> Option<Arc<ColorImage>> {
    ctx.data(|data| data.get_temp::<Arc<ColorImage>>(pixels_of(id)))
}

fn pixels_of(id: TextureId) -> Id {
    Id::unique(("pixels", id))
}

/// A hash of numbers.
pub fn key(words: &[u64]) -> Key {
    words.iter().fold(0x243f_6a88_85a3_08d3, |hash, word| {
        (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ (word >> 32)
    })
}

/// A hash of a rectangle.
pub fn place(rect: egui::Rect) -> u64 {
    let bits = |value: f32| u64::from(value.to_bits());
    key(&[bits(rect.left()), bits(rect.top()), bits(rect.width()), bits(rect.height())])
}
