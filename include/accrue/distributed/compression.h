#pragma once

#include "accrue/accum/compression.h"

namespace accrue::distributed {

using accum::Compression;
using accum::compression_words;

}  // namespace accrue::distributed
