// RUN: pydisc opt %s --passes=canonicalize-dot | filecheck %s

"disc_shape.symbolic_dim"() {sym_name = "S0", min = 0 : i64} : () -> ()

// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:.*]]: tensor<8x?xf32, [8, @S0]>, %[[W:.*]]: tensor<8x4xf32>)
// CHECK: %[[T:.*]] = stablehlo.transpose %[[X]], dims = [1, 0]
// CHECK: stablehlo.dot_general %[[T]], %[[W]], contracting_dims = [1] x [0]
func.func @main(%x: tensor<8x?xf32, [8, @S0]>, %w: tensor<8x4xf32>) -> tensor<?x4xf32, [@S0, 4]> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [0] x [0] : (tensor<8x?xf32, [8, @S0]>, tensor<8x4xf32>) -> tensor<?x4xf32, [@S0, 4]>
  return %0 : tensor<?x4xf32, [@S0, 4]>
}
