#pragma once

#include <map>
#include <string>
#include <string_view>

#include "data/chat/template/functions/call_arguments.h"

namespace accrue::data::jinja {

bool is_known_filter(std::string_view name);

/// `input | name(arguments)`, as in jinja2 (3.1, filters.py), with `tojson` as in transformers.
/// Filters that return generators there do so here, but compute them at once.
Value apply_filter(const Value& input, CallArguments arguments, Work& work);

using FilterFunction = Value (*)(const Value& input, CallArguments& arguments, Work& work);
using FilterTable = std::map<std::string_view, FilterFunction>;
const FilterTable& text_filters();
const FilterTable& sequence_filters();

}  // namespace accrue::data::jinja
