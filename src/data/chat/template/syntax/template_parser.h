#pragma once

#include <string>

#include "data/chat/template/syntax/template_nodes.h"

namespace accrue::data::jinja {

/// Parses a template, by the grammar of jinja2 (3.1, parser.py) with the tags `break`, `continue`
/// and `generation`, which transformers adds. Throws a usage Error of the operation `what` that
/// names the line and the construct if it is invalid, or not known to this version.
ParsedTemplate parse_template(const std::string& source, const std::string& what);

}  // namespace accrue::data::jinja
