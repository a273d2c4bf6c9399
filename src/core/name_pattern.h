#pragma once

#include <string>
#include <vector>

namespace accrue {

/// Whether `pattern` matches a dotted name, or whole parts of it that follow on each other:
/// "q_proj", "layers.0" and "model.layers.*.self_attn" all match
/// "model.layers.0.self_attn.q_proj.weight". Signs are those of fnmatch(3): `*` any signs (dots,
/// too), `?` one, `[a-c]` one of them.
bool matches_name(const std::string& pattern, const std::string& name);

/// Whether any of `patterns` matches.
bool matches_any(const std::vector<std::string>& patterns, const std::string& name);

/// Throws a usage Error of `operation` where a pattern matches none of `names`, with what there is.
void check_patterns(const std::string& operation, const std::vector<std::string>& patterns,
                    const std::vector<std::string>& names);

/// `names` for people, numbers as `*` and each only once: "model.layers.*.self_attn.q_proj", ...
std::string families_of(const std::vector<std::string>& names);

}  // namespace accrue
