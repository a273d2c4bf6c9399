#pragma once

#include <cstdint>
#include <filesystem>

#include "accrue/data/source.h"

namespace accrue::data {

/// Writes all tokens of a source's samples, in order, as a token file that open_source() reads: if
/// samples lie in one stream, each token once, so that the file has the same samples; else sample
/// after sample. Headerless uint16, or for a `vocab` above 65,535 llm.c's header and uint32. Works
/// on all threads; the file is written atomically. Returns the number of tokens. Throws a usage
/// Error of the operation `what` if some of the tokens are not learned (prompts) or samples have
/// weights, which a token file cannot hold, and if there are more tokens than its header can
/// count.
std::int64_t write_token_file(const Source& source, std::int64_t vocab,
                              const std::filesystem::path& file, const std::string& what);

}  // namespace accrue::data
