pub(crate) mod bindings;
