#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "accrue/core/error.h"

namespace accrue {

/// The program and the shared libraries that this process runs, by the names of their files, each
/// with what tells its builds apart: the linker's build ID in hexadecimal digits, or where it has
/// none the size of its file ("1234 bytes").
std::map<std::string, std::string> loaded_libraries();

/// The file of a library of ours that is loaded where it is needed: beside the program or library
/// that this lies in, or in ../lib/accrue of its folder. Nothing if it is in neither.
std::optional<std::filesystem::path> own_library(const std::string& name);

/// The function `name` of own_library(library), which has `what` and is loaded for it. Throws what
/// `refused` makes of what was expected and received, if it is not there or does not load.
using RefuseLibrary = Error (*)(const std::string& expected, const std::string& received);
void* own_function(const std::string& library, const std::string& what, const char* name,
                   RefuseLibrary refused);

/// The file of the program or the shared library that `symbol` lies in; empty if it is in none.
std::filesystem::path library_of(const void* symbol);

}  // namespace accrue
