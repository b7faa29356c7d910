//! One component of two.

use std::error::Error;

use wac_graph::types::Package;
use wac_graph::{CompositionGraph, EncodeOptions, PackageId};

use crate::strip::strip;

/// What `wac plug` does: the one that needs something gets it from the one that provides it, and its exports are the whole's.
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
