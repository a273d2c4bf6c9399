#pragma once

#include <string>

#include "data/chat/template_nodes.h"

namespace accrue::data::jinja {

/// Parses a template, by the grammar of jinja2 (3.1, parser.py) with the tags `break`, `continue`
/// and `generation`, which transformers adds. Throws a usage Error, its operation being `what`,
/// that names the line and the construct where it is none, or has what this version does not know.
ParsedTemplate parse_template(const std::string& source, const std::string& what);

}  // namespace accrue::data::jinja
