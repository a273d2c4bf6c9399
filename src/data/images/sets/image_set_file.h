#pragma once

#include <filesystem>

namespace accrue::data {

/// Whether a file without a telling suffix contains images, or the labels of images: CIFAR's
/// records in a .bin file, or idx. It reads the file's size, its header and its first labels. False
/// for a file that cannot be read.
bool is_image_set_file(const std::filesystem::path& path);

}  // namespace accrue::data
