#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "accrue/core/long_operation.h"
#include "accrue/train/config.h"

namespace accrue::train {

struct TokenFile {
  std::filesystem::path path;
  std::int64_t tokens = 0;
};

/// What write_token_files() wrote.
struct TokenFiles {
  std::vector<TokenFile> files;
  std::int64_t vocab = 0;  ///< the tokenizer's
};

/// Writes `out`/train.bin and, if the config has held-out data, `out`/val.bin: the tokens of its
/// text or of the text in its JSON lines, by data.tokenizer (data::write_token_file()). Of text
/// files, training on them with the same model.context takes the samples that training on the text
/// takes; what fills no sample is left out, as there. JSON lines stand one behind the other. The
/// folder is made if there is none. Throws a usage Error if it holds such a file already, and
/// if the data are none of text; if one of the files fails, neither stays.
TokenFiles write_token_files(Config config, const std::filesystem::path& out,
                             const ShowProgress& show);

}  // namespace accrue::train
