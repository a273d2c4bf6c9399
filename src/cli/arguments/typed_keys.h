#pragma once

#include <span>
#include <string>
#include <string_view>

#include "accrue/core/error.h"

namespace accrue::cli {

/// A key of a config that a verb sets, and the word with which a user of the verb states it: an
/// option ("--format"), an override ("--data.format=") or an argument ("FILES").
struct TypedKey {
  std::string_view key, typed;
};

/// `error` with words of the command line in place of these keys, for verbs whose users have typed
/// no key: `data.format = "text"` becomes `--format text`, `data.train` becomes `--data`. A key
/// that is a part of a longer word stays. `command` is put before an operation that is then an
/// option.
Error in_typed_words(const Error& error, std::span<const TypedKey> keys,
                     const std::string& command);

}  // namespace accrue::cli
