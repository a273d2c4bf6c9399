#pragma once

#include <string_view>

#include "data/chat/template/functions/call_arguments.h"

namespace accrue::data::jinja {

bool is_known_test(std::string_view name);

/// `input is name(arguments)`, as in jinja2 (3.1, tests.py).
bool passes_test(const Value& input, CallArguments arguments, Work& work);

}  // namespace accrue::data::jinja
