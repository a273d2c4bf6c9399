#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace accrue::data {

/// For files that nobody said to be text: throws a usage Error, its operation being `what`, that
/// names the first whose name or first bytes say that it is something else (compressed, an archive,
/// a table, an array, a document; a zero byte).
void refuse_what_is_no_text(const std::vector<std::filesystem::path>& paths,
                            const std::string& what);

}  // namespace accrue::data
