#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace accrue::data {

/// The parts of a pattern's path, by which files are searched folder by folder: without ".", with
/// one "**" for several in a row, and with "*" after one that ends the pattern.
std::vector<std::string> glob_parts(const std::string& glob);

/// Whether a part can match several names.
bool is_wildcard(const std::string& part);

/// Whether a part that is not "**" matches a name. Hidden names only match if it has the dot.
bool part_matches(const std::string& part, const std::string& name);

/// Whether `glob` would match a file with this path, which need not exist. Links below the folder
/// that the glob begins in are not followed.
bool would_match(const std::string& glob, const std::filesystem::path& file);

/// A pattern that matches only this path, whatever characters are in it.
std::string as_glob(const std::filesystem::path& path);

}  // namespace accrue::data
