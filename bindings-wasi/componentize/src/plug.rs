//! Joins two components.

use std::error::Error;

use wac_graph::types::Package;
use wac_graph::{CompositionGraph, EncodeOptions, PackageId};

use crate::strip::strip;

/// Like `wac plug`: connects the imports of `needs` to the exports of `provides`, and exports what `needs` exports.
pub(crate) fn plug(needs: Vec<u8>, provides: Vec<u8>) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut graph = CompositionGraph::new();
    let needs = register(&mut graph, "plug:needs", needs)?;
    let provides = register(&mut graph, "plug:provides", provides)?;
    wac_graph::plug(&mut graph, vec![provides], needs)?;
    Ok(strip(&graph.encode(EncodeOptions::default())?)?)
}

fn register(graph: &mut CompositionGraph, name: &str, component: Vec<u8>) -> Result<PackageId, Box<dyn Error>> {
    let package = Package::from_bytes(name, None, component, graph.types_mut())?;
    Ok(graph.register_package(package)?)
}
