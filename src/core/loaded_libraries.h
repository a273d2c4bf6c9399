#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "accrue/core/error.h"

namespace accrue {

/// The program and the shared libraries of this process, by file name, each with an identifier of
/// its build: the linker's build ID in hexadecimal digits, or, if it has none, the size of its file
/// ("1234 bytes").
std::map<std::string, std::string> loaded_libraries();

/// The file of one of accrue's libraries that is loaded on demand: next to the program or library
/// that contains this code, or in ../lib/accrue of its folder. Nothing if it is in neither.
std::optional<std::filesystem::path> own_library(const std::string& name);

/// The function `name` of own_library(library), which provides `what` and is loaded for it. If it
/// is missing or does not load, throws the result of `refused` for the expected and received texts.
using RefuseLibrary = Error (*)(const std::string& expected, const std::string& received);
void* own_function(const std::string& library, const std::string& what, const char* name,
                   RefuseLibrary refused);

/// The file of the program or the shared library that contains `symbol`; empty if none does.
std::filesystem::path library_of(const void* symbol);

}  // namespace accrue
