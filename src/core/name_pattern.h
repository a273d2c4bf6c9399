#pragma once

#include <string>
#include <vector>

namespace accrue {

/// Whether `pattern` matches a dotted name, or consecutive whole parts of it: "q_proj",
/// "layers.0" and "model.layers.*.self_attn" all match "model.layers.0.self_attn.q_proj.weight".
/// Wildcards are those of fnmatch(3): `*` any characters (also dots), `?` one, `[a-c]` one of a
/// set.
bool matches_name(const std::string& pattern, const std::string& name);

/// Whether any of `patterns` matches.
bool matches_any(const std::vector<std::string>& patterns, const std::string& name);

/// Throws a usage Error of `operation` that lists `names` if a pattern matches none of them.
void check_patterns(const std::string& operation, const std::vector<std::string>& patterns,
                    const std::vector<std::string>& names);

/// `names` for people, numbers as `*`, without repeats: "model.layers.*.self_attn.q_proj", ...
std::string families_of(const std::vector<std::string>& names);

}  // namespace accrue
