#pragma once

#include <memory>
#include <string>

#include "accrue/data/source.h"
#include "data/files/glob.h"
#include "data/images/sets/image_store.h"

namespace accrue::data {

/// The samples of image files of one kind. Throws a usage Error as the openers in image_store.h do,
/// and if kinds are mixed or a file is compressed.
std::unique_ptr<Source> open_images(const FoundFiles& found, const ImageOptions& options,
                                    const std::string& what);

}  // namespace accrue::data
