#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace accrue::data {

/// Looks at files that nobody said to be text. Throws a usage Error, its operation being `what`,
/// that names the first file whose name or first bytes say that it is something else (compressed,
/// an archive, a table, an array, a document; a zero byte).
void refuse_what_is_no_text(const std::vector<std::filesystem::path>& paths,
                            const std::string& what);

}  // namespace accrue::data
