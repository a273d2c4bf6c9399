#pragma once

#include <cstdint>
#include <filesystem>

#include "accrue/data/source.h"

namespace accrue::data {

/// Writes all tokens of a source's samples, in order, as a token file that open_source() reads:
/// where samples lie in one stream, each token once, so that the file has the same samples; else
/// sample after sample. Headerless uint16, or for a `vocab` above 65,535 llm.c's header and uint32.
/// Works on all threads and is written atomically. Returns the number of tokens. Throws a usage
/// Error, its operation being `what`, if some of the tokens are not to be learned (prompts) or
/// samples have weights, which a token file cannot tell, and where there are more than its header
/// can count.
std::int64_t write_token_file(const Source& source, std::int64_t vocab,
                              const std::filesystem::path& file, const std::string& what);

}  // namespace accrue::data
