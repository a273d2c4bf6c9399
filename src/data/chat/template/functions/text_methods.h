#pragma once

#include <string>

#include "data/chat/template/functions/call_arguments.h"

namespace accrue::data::jinja {

/// Calls a method of Python's str, as `call_method` does.
Value call_of_text(const std::string& text, CallArguments& arguments, Work& work);

}  // namespace accrue::data::jinja
