//! The pod's shim as a binary of its own, for the tests of `runtime`; the product runs it as a hidden verb of `volley`.

fn main() {
    std::process::exit(volley_cluster::runtime::shim_main(std::env::args().skip(1)));
}
