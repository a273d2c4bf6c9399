#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "accrue/data/source.h"
#include "data/files/file_pool.h"
#include "data/images/image_decode.h"

namespace accrue::data {

/// The shape that the file's first bytes tell; it reads up to 16 MiB where much else stands before
/// the header. Nothing where it is no image that can be read.
std::optional<ImageShape> image_file_shape(const FilePool& files, std::size_t file);

/// The same where there must be one: throws a usage Error, its operation being `what`, that names
/// the file and what it is instead.
ImageShape require_image_shape(const FilePool& files, std::size_t file, const std::string& what);

/// other_image_format() of the file's first bytes.
std::string other_image_file_format(const FilePool& files, std::size_t file);

/// Reads and decodes the whole file, as decode_image() does. Throws as FilePool::read() does.
std::string decode_image_file(const FilePool& files, std::size_t file, DecodedImage& image);

/// why_no_mask() of the file's first bytes.
std::string why_no_mask_file(const FilePool& files, std::size_t file);

/// Reads and decodes the whole file, as decode_mask() does. Throws as FilePool::read() does.
std::string decode_mask_file(const FilePool& files, std::size_t file, DecodedImage& mask);

}  // namespace accrue::data
