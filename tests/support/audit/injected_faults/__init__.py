"""The catalog of faults that an audit must find, each injected into a small log directory."""
