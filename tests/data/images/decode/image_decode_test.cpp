#include "data/images/decode/image_decode.h"

#include <gmock/gmock.h>
#include <jpeglib.h>

#include <cstdio>

#include "data/images/transform/image_fit.h"
#include "data/planted_images.h"

namespace accrue::data {
namespace {

using ::testing::Each;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using testing::Picture;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::vector<std::uint8_t> pixels_of(const std::string& encoded, const ImageShape& shape) {
  DecodedImage image;
  EXPECT_EQ(decode_image(bytes_of(encoded), image), "");
  EXPECT_EQ(image.shape, shape);
  std::vector<std::uint8_t> planes(image.bytes.size());
  fit_image(image, shape, planes);
  return planes;
}

std::string failure_of(std::span<const std::byte> encoded) {
  DecodedImage image;
  return decode_image(encoded, image);
}

struct HandMade {
  const char* name;
  std::string encoded;
  ImageShape shape;
  std::vector<std::uint8_t> pixels;
};

/// Made by Python's zlib and struct from the standard (ISO/IEC 15948), not by a PNG library.
std::vector<HandMade> made_by_hand() {
  const auto text = [](std::initializer_list<int> bytes) {
    std::string result;
    for (const int byte : bytes) result.push_back(static_cast<char>(byte));
    return result;
  };
  return {
      {"sixteen_bits",
       text({137, 80, 78, 71,  13, 10,  26,  10, 0,  0,  0,   13,  73,  72,  68, 82, 0, 0,
             0,   2,  0,  0,   0,  1,   16,  0,  0,  0,  0,   129, 217, 252, 21, 0,  0, 0,
             13,  73, 68, 65,  84, 120, 218, 99, 16, 98, 248, 199, 0,   0,   2,  73, 1, 17,
             11,  91, 37, 224, 0,  0,   0,   0,  73, 69, 78,  68,  174, 66,  96, 130}),
       {1, 1, 2},
       {0x12, 0xfe}},
      {"palette",
       text({137, 80,  78,  71, 13, 10, 26, 10, 0,   0,   0,  13,  73,  72,  68, 82,  0,   0,
             0,   3,   0,   0,  0,  1,  2,  3,  0,   0,   0,  102, 142, 252, 39, 0,   0,   0,
             9,   80,  76,  84, 69, 10, 20, 30, 40,  50,  60, 70,  80,  90,  22, 172, 132, 116,
             0,   0,   0,   10, 73, 68, 65, 84, 120, 218, 99, 104, 1,   0,   0,  134, 0,   133,
             17,  125, 183, 91, 0,  0,  0,  0,  73,  69,  78, 68,  174, 66,  96, 130}),
       {3, 1, 3},
       {70, 10, 40, 80, 20, 50, 90, 30, 60}},
      {"interlaced",
       text({137, 80,  78, 71,  13, 10,  26,  10, 0,   0,   0,  13, 73,  72,  68,  82, 0,  0,
             0,   2,   0,  0,   0,  2,   8,   0,  0,   0,   1,  32, 218, 98,  110, 0,  0,  0,
             15,  73,  68, 65,  84, 120, 218, 99, 224, 102, 16, 99, 80,  212, 1,   0,  1,  15,
             0,   111, 47, 226, 83, 73,  0,   0,  0,   0,   73, 69, 78,  68,  174, 66, 96, 130}),
       {1, 2, 2},
       {11, 22, 33, 44}},
      {"one_bit",
       text({137, 80,  78,  71, 13, 10, 26, 10,  0,   0,  0,   13, 73,  72,  68,  82,  0,
             0,   0,   8,   0,  0,  0,  1,  1,   0,   0,  0,   0,  203, 123, 210, 238, 0,
             0,   0,   10,  73, 68, 65, 84, 120, 218, 99, 216, 4,  0,   0,   180, 0,   179,
             137, 144, 205, 47, 0,  0,  0,  0,   73,  69, 78,  68, 174, 66,  96,  130}),
       {1, 1, 8},
       {255, 0, 255, 255, 0, 0, 255, 0}},
  };
}

TEST(PngDecode, ReadsEveryKindOfSample) {
  for (const HandMade& image : made_by_hand()) {
    EXPECT_EQ(image_shape_of(bytes_of(image.encoded)), image.shape) << image.name;
    EXPECT_THAT(pixels_of(image.encoded, image.shape), ElementsAreArray(image.pixels))
        << image.name;
    EXPECT_EQ(image_shape_of(bytes_of(image.encoded).first(33)), image.shape) << "its header";
  }
}

TEST(ImageHeaders, TellWhatDecodingHolds) {
  const auto bytes_by_header = [](const std::string& encoded) {
    return image_header_of(bytes_of(encoded)).value().decoding_bytes;
  };
  constexpr std::int64_t pixels = std::int64_t{12} * 20;
  EXPECT_EQ(bytes_by_header(testing::png(testing::make_picture(12, 20, 3, 1))), 3 * pixels);
  EXPECT_EQ(bytes_by_header(testing::png(testing::make_picture(12, 20, 1, 1))), 3 * pixels)
      << "grey is decoded as colour first";
  EXPECT_EQ(bytes_by_header(testing::jpeg(testing::make_gradient(12, 20))), 3 * pixels);
}

TEST(PngDecode, NoticesEveryDamagedByteBeforeTheEndChunk) {
  const std::string whole = testing::png(testing::make_picture(4, 4, 3, 1));
  const ImageShape shape{3, 4, 4};
  constexpr std::size_t end_chunk_bytes = 12;
  for (std::size_t i = 0; i + end_chunk_bytes < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 4);
    EXPECT_NE(failure_of(bytes_of(damaged)), "") << i;
  }
  EXPECT_THAT(pixels_of(whole, shape), ::testing::SizeIs(3 * 4 * 4)) << "the control";
}

enum class Scans { one, progressive, one_each };

std::string encoded_jpeg(J_COLOR_SPACE space, int components, Scans scans) {
  jpeg_compress_struct image{};
  jpeg_error_mgr errors{};
  image.err = jpeg_std_error(&errors);
  jpeg_create_compress(&image);
  unsigned char* memory = nullptr;
  unsigned long bytes = 0;
  jpeg_mem_dest(&image, &memory, &bytes);
  image.image_width = 20;
  image.image_height = 12;
  image.input_components = components;
  image.in_color_space = space;
  jpeg_set_defaults(&image);
  jpeg_set_quality(&image, 100, TRUE);
  if (scans == Scans::progressive) jpeg_simple_progression(&image);
  std::vector<jpeg_scan_info> each;
  for (int component = 0; component < components; ++component)
    each.push_back({.comps_in_scan = 1,
                    .component_index = {component, 0, 0, 0},
                    .Ss = 0,
                    .Se = 63,
                    .Ah = 0,
                    .Al = 0});
  if (scans == Scans::one_each) {
    image.scan_info = each.data();
    image.num_scans = components;
  }
  jpeg_start_compress(&image, TRUE);
  std::vector<unsigned char> row(static_cast<std::size_t>(20 * components), 120);
  JSAMPROW rows[] = {row.data()};
  while (image.next_scanline < image.image_height) jpeg_write_scanlines(&image, rows, 1);
  jpeg_finish_compress(&image);
  std::string text(reinterpret_cast<const char*>(memory), bytes);
  jpeg_destroy_compress(&image);
  std::free(memory);
  return text;
}

TEST(JpegDecode, ReadsGreyColourAndProgressive) {
  for (const Scans scans : {Scans::one, Scans::progressive, Scans::one_each}) {
    const std::string grey = encoded_jpeg(JCS_GRAYSCALE, 1, scans);
    EXPECT_EQ(image_shape_of(bytes_of(grey)), (ImageShape{1, 12, 20}));
    EXPECT_THAT(pixels_of(grey, {1, 12, 20}), Each(120));
    const std::string colour = encoded_jpeg(JCS_RGB, 3, scans);
    EXPECT_THAT(pixels_of(colour, {3, 12, 20}),
                Each(::testing::AllOf(::testing::Ge(119), ::testing::Le(121))));
  }
}

TEST(JpegDecode, RefusesWhatItDoesNotRead) {
  const std::string cmyk = encoded_jpeg(JCS_CMYK, 4, Scans::one);
  EXPECT_EQ(image_shape_of(bytes_of(cmyk)), std::nullopt) << "when the run starts";
  EXPECT_THAT(failure_of(bytes_of(cmyk)), HasSubstr("CMYK"));
  const std::string colour = encoded_jpeg(JCS_RGB, 3, Scans::progressive);
  for (std::size_t length = 2; length < colour.size(); length += 7)
    EXPECT_NE(failure_of(bytes_of(colour).first(length)), "") << length;
  EXPECT_EQ(failure_of(bytes_of(colour)), "") << "the control";
}

/// A few hundred bytes a scan, each of which costs a pass over all pixels.
TEST(JpegDecode, RefusesEndlessScans) {
  const std::string whole = encoded_jpeg(JCS_RGB, 3, Scans::one_each);
  const std::string start_of_scan = "\xff\xda", end = "\xff\xd9";
  const std::size_t last = whole.rfind(start_of_scan);
  const std::string head = whole.substr(0, last),
                    scan = whole.substr(last, whole.size() - last - end.size());
  const auto with = [&](int times) {
    std::string image = head;
    for (int i = 0; i < times; ++i) image += scan;
    return image + end;
  };
  EXPECT_EQ(failure_of(bytes_of(with(100))), "") << "the control";
  EXPECT_EQ(failure_of(bytes_of(with(300))), "more than 200 scans");
}

}  // namespace
}  // namespace accrue::data
