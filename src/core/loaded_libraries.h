#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace accrue {

/// The program and the shared libraries that this process runs, by the names of their files, each
/// with what tells its builds apart: the linker's build ID in hexadecimal digits, or where it has
/// none the size of its file ("1234 bytes").
std::map<std::string, std::string> loaded_libraries();

/// The file of the program or the shared library that `symbol` lies in; empty where it is in none.
std::filesystem::path library_of(const void* symbol);

}  // namespace accrue
