#pragma once

#include <string>

#include "data/chat/template/functions/call_arguments.h"

namespace accrue::data::jinja {

/// Whether Python's type of the value has a method of that name, known here or not.
bool has_method(const Value& object, const std::string& name);

/// Calls it. Throws a Failure that names a method that this version does not know, or one that
/// would change its object, which the sandbox forbids.
Value call_method(const Value& object, CallArguments arguments, Work& work);

}  // namespace accrue::data::jinja
