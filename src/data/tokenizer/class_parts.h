#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/tokenizer/stated_token.h"

namespace accrue::data {

/// What a class of transformers makes of a tokenizer.json: it takes vocabulary, merges and
/// post-processor, and brings all else.
struct ClassParts {
  /// What becomes of the file's post-processor.
  enum class Around {
    as_stated,
    nothing,       ///< no token is put around a text
    beginning,     ///< bos_token before each text
    of_classifier  ///< cls_token before and sep_token behind each text
  };
  /// What becomes of the special tokens when all are added.
  enum class Afterwards {
    nothing,
    added_again,  ///< as special tokens of default properties
    made_special  ///< with the properties that they have
  };

  /// Special tokens when no file names them; without a text: there is none, and that is said.
  std::vector<std::pair<const char*, std::optional<std::string>>> named;
  std::vector<std::string> extra;  ///< when no file names any
  nlohmann::json normalizer, pre_tokenizer, decoder;
  bool fuses_unknown = false;
  bool falls_back_to_bytes = false;
  bool names_unknown = false;  ///< unk_token stands for what the vocabulary does not have
  Around around = Around::as_stated;
  Afterwards afterwards = Afterwards::nothing;
};

/// What a class of this name (tokenizer_class_of()) makes with the settings of a
/// tokenizer_config.json; none: accrue does not know it. Throws a usage Error of `reader` when a
/// setting that it reads is of another type.
std::optional<ClassParts> parts_of_class(std::string_view name,
                                         const nlohmann::ordered_json& settings,
                                         const TokenReader& reader);

}  // namespace accrue::data
